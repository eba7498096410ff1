r"""
Handwritten digits unfolded: Isomap in a learned metric
=======================================================

Isomap lays rows out in the plane so that distances along their neighbour graph are kept. What it
shows depends on who counts as a neighbour, so a metric that tells classes apart gives another
picture. This example embeds images of the digits 3, 5 and 9, shrunk to 7 x 7 pixels, three times:
with Euclidean distances between pixels, with :class:`~genmetric.GenerativeMetric` learned from
labels, and with the metric that :class:`~genmetric.MetricKMeans` learns without any. The same
figure is drawn by ``genmetric reproduce isomap``.
"""

# %%
# Images
# ------
# 400 images of each digit are embedded; 400 others lend their labels to the metric, so that what
# the picture shows is not memory. The images are MNIST where a data directory has it (see
# :func:`~genmetric.datasets.load_dataset`), and otherwise the smaller set of scikit-learn, half
# and half. Some pixels are dark in every image: a constant feature does no harm.

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from genmetric import MetricKMeans
from genmetric.study.isomap import digit_images, draw_embeddings, embed, metric_spaces

beside = Path.cwd().resolve().parent / "shared" / "data"
data_dir = os.environ.get("GENMETRIC_DATA") or (beside if beside.is_dir() else None)
images = digit_images(data_dir=data_dir)
X, y = images.shown
print(f"{len(y)} images from {images.source}")

# %%
# Three spaces
# ------------
# The learned metrics are linear maps, after which distances are Euclidean. (To learn and embed the
# same rows, ``make_pipeline(GenerativeMetric(), Isomap())`` does; t-SNE or UMAP take the place of
# Isomap as they are.)

spaces = metric_spaces(images)
plain = KMeans(3, n_init=10, random_state=0).fit(X)
learned = MetricKMeans(3, random_state=0).fit(X)
for name, labels in (("k-means", plain.labels_), ("MetricKMeans", learned.labels_)):
    print(
        f"{name}: adjusted Rand index of clusters and digits {adjusted_rand_score(y, labels):.2f}"
    )

# %%
# Three pictures
# --------------
# Under each, how often the nearest neighbour in the plane is another digit, and the silhouette of
# the digits (1: well apart; 0: on top of each other). The plane has no scale and no up: each is
# turned and mirrored to lie like the first.

figure = draw_embeddings(embed(spaces), y, figure=plt.figure(figsize=(12, 4.6)))
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

# %%
# With labels the three digits come apart. Without them the picture is worse than the Euclidean one:
# the three clusters that k-means finds in the pixels are not the three digits, and the metric
# sharpens the clusters it is given. That helps where clusters and classes nearly agree to begin
# with, as on iris and wine.
