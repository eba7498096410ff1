"""Scores of candidate metrics on the splits of GenerativeMetricCV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsClassifier

from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import check_weights, encode_classes
from genmetric._votes import majority_votes
from genmetric.density._factored_statistics import AnyStatistics, FactoredStatistics
from genmetric.density._scaling import Scaling
from genmetric.density._whitening import fourth_moments
from genmetric.geometry._factor import rank_limited_factor
from genmetric.geometry._local import interpolate
from genmetric.learners._candidates import Candidate
from genmetric.learners._combination import GivenWeights
from genmetric.learners._fitting import base_coordinates, plan_fit
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._sampling import draw_classes
from genmetric.learners._specification import FitSpecification
from genmetric.learners._splits import Split


@dataclass(frozen=True)
class SelectionSamples:
    """Samples of a selection, and the metrics of candidates on them.

    Attributes
    ----------
    template : GenerativeMetric
        Metric with the parameters that all candidates share.
    x : ndarray of shape (n_samples, n_features)
        Samples with positive weight.
    labels, codes : ndarray of shape (n_samples,)
        Class labels and class indices.
    classes : ndarray of shape (n_classes,)
        Class names.
    weight : ndarray of shape (n_samples,) or None
        Sample weights.
    average : ndarray of shape (n_samples,) or None
        Weights of the local metrics in the average.
    kept : ndarray of shape (n_samples,)
        Indices of the samples among all that were passed.
    frame : Scaling
        Shift and scale of the samples.
    n_jobs : int or None
        Number of threads.
    """

    template: GenerativeMetric
    x: AnyArray
    labels: AnyArray
    codes: IntArray
    classes: AnyArray
    weight: FloatArray | None
    average: FloatArray | None
    kept: IntArray
    frame: Scaling
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        template: GenerativeMetric,
        spec: FitSpecification,
        x: AnyArray,
        labels: AnyArray,
        weight: FloatArray | None,
    ) -> SelectionSamples:
        """Leave out samples of weight zero, and encode the classes."""
        average = weight
        if isinstance(spec.combination, GivenWeights):
            share = check_weights(spec.combination.weights, len(x), "combination")
            average = share if weight is None else share * weight
        kept = np.arange(len(x)) if weight is None else np.flatnonzero(weight)
        x, labels = x[kept], labels[kept]
        classes, codes = encode_classes(labels, "GenerativeMetricCV")
        weight, average = (w if w is None else w[kept] for w in (weight, average))
        frame = Scaling.of(x)
        return cls(template, x, labels, codes, classes, weight, average, kept, frame, spec.n_jobs)

    def some_classes(self, n_samples: int, rng: np.random.RandomState) -> SelectionSamples:
        """Return the samples of random classes, at most `n_samples` and at least two classes.

        A random subset of the samples of thousands of small classes would have hardly any two of
        the same class.

        Parameters
        ----------
        n_samples : int
            Maximum number of samples.
        rng : RandomState
            Random number generator.

        Returns
        -------
        SelectionSamples
            The samples of the classes drawn, in the same order; all if there are no more.
        """
        if len(self.x) <= n_samples:
            return self
        drawn = draw_classes(np.bincount(self.codes), n_samples, rng)
        rows = np.flatnonzero(np.isin(self.codes, drawn))
        classes, codes = np.unique(self.codes[rows], return_inverse=True)
        x = self.x[rows]
        weight, average = (w if w is None else w[rows] for w in (self.weight, self.average))
        return replace(
            self,
            x=x,
            labels=self.labels[rows],
            codes=codes,
            classes=self.classes[classes],
            weight=weight,
            average=average,
            kept=self.kept[rows],
            frame=Scaling.of(x),
        )

    def uses_factors(self, spec: FitSpecification, candidates: Sequence[Candidate]) -> bool:
        """Return whether a fit with these parameters represents classes by their samples."""
        return (
            spec.solver == "auto"
            and spec.class_models.streams
            and all(candidate.shrinkage not in (None, 0) for candidate in candidates)
            and FactoredStatistics.saves_memory(np.bincount(self.codes), self.x.shape[1])
        )

    def weight_of(self, rows: IntArray) -> FloatArray | None:
        """Return the weights of some samples, or None if all weights are one."""
        return None if self.weight is None else self.weight[rows]

    def scores(
        self, candidates: Sequence[Candidate], splits: Sequence[Split], k: IntArray, scoring: Any
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Compute the scores of all candidates.

        Parameters
        ----------
        candidates : sequence of Candidate
            Candidates, those with the same average next to each other.
        splits : sequence of Split
            Samples to fit on, to classify and to search.
        k : ndarray of shape (n_numbers,)
            Numbers of neighbours.
        scoring : str, callable or None
            Scorer of scikit-learn; ``None`` is the accuracy of votes.

        Returns
        -------
        scores : ndarray of shape (n_candidates, n_splits, n_numbers)
            Scores of the splits.
        paired : list of ndarray
            For each candidate the scores of the samples, or of the splits if there is a scorer, of
            shape (n_scores, n_numbers).
        """
        scores = np.empty((len(candidates), len(splits), len(k)))
        paired: list[list[FloatArray]] = [[] for _ in candidates]
        for s, split in enumerate(splits):
            maps = self.candidate_maps(split, candidates)
            for c, (queries, references) in enumerate(maps):
                if scoring is None:
                    correct = self.vote_accuracy(split, queries, references, k)
                    weight = self.weight_of(split.queries)
                    scores[c, s] = np.average(correct, axis=0, weights=weight)
                    if weight is not None:
                        correct *= (weight / weight.mean())[:, None]
                    paired[c].append(correct)
                else:
                    scores[c, s] = self.scorer_values(split, queries, references, k, scoring)
                    paired[c].append(scores[c, s : s + 1])
        return scores, [np.concatenate(parts) for parts in paired]

    def candidate_maps(
        self, split: Split, candidates: Sequence[Candidate]
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the queries and references of a split in the space of each candidate metric.

        Parameters
        ----------
        split : Split
            Samples to fit on, to classify and to search.
        candidates : sequence of Candidate
            Candidates, those with the same average next to each other.

        Yields
        ------
        queries : ndarray of shape (n_queries, n_components)
            Samples to classify.
        references : ndarray of shape (n_references, n_components)
            Samples to search among.
        """
        density = FitSpecification.of(self.template.get_params(deep=False)).combination.by_density
        for _, group in groupby(candidates, key=lambda c: (c.averages, c.interpolation > 0)):
            members = list(group)
            learned = members[0].interpolation > 0
            if density and learned:
                for candidate in members:
                    yield self._fitted_map(split, candidate)
                continue
            frame, stats, mean = self._average(split, members[0], learned)
            queries, references = (
                frame.apply(self.x[rows]) for rows in (split.queries, split.references)
            )
            for candidate in members:
                factor = _factor(mean, candidate, stats)
                yield queries @ factor.T, references @ factor.T

    def _average(
        self, split: Split, candidate: Candidate, learned: bool
    ) -> tuple[Scaling, AnyStatistics, FloatArray]:
        """Return coordinates, class statistics there, and the average of local metrics."""
        parameters = {**self.template.get_params(deep=False), **candidate.params}
        spec = FitSpecification.of({**parameters, "n_components": None})
        rows = split.train
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        weight = self.weight_of(rows)
        before: AnyStatistics
        if split.stats is None:
            before = FactoredStatistics.of(
                self.x[rows], codes, len(present), frame=self.frame, sample_weight=weight
            )
        else:
            before = split.stats.take(present)

        def fourth(frame: Scaling, inside: AnyStatistics) -> FloatArray:
            if not learned:
                return inside.fourth
            return fourth_moments(
                self.x[rows], codes, inside.mean, frame, sample_weight=weight, n_jobs=self.n_jobs
            )

        frame, stats = base_coordinates(spec, self.frame, before, fourth)
        if not learned:
            return frame, stats, np.eye(self.x.shape[1])
        samples = None if spec.class_models.streams else (self.x[rows], codes, weight)
        n_averaged = len(split.averaged)
        plan = plan_fit(spec, frame, stats, self.classes[present], n_averaged, samples)
        average = None if self.average is None else self.average[split.averaged]
        return frame, stats, plan.metric_sum(self.x[split.averaged], average).mean()

    def _fitted_map(self, split: Split, candidate: Candidate) -> tuple[FloatArray, FloatArray]:
        """Return queries and references in the space of a metric that is fitted separately."""
        metric = clone(self.template).set_params(**candidate.params, preprocessor=None)
        metric.fit(self.x[split.train], self.labels[split.train], self.weight_of(split.train))
        queries, references = (
            self.frame.apply(self.x[rows]) @ metric.components_.T
            for rows in (split.queries, split.references)
        )
        return queries, references

    def vote_accuracy(
        self, split: Split, queries: FloatArray, references: FloatArray, k: IntArray
    ) -> FloatArray:
        """Return whether the vote of k neighbours is right, shape (n_queries, n_numbers)."""
        place = np.searchsorted(split.references, split.queries)
        place = np.minimum(place, len(split.references) - 1)
        exclude = np.where(split.references[place] == split.queries, place, -1)
        found = nearest_neighbors(
            references, int(k.max()), queries=queries, exclude=exclude, n_jobs=self.n_jobs
        )
        labels = self.codes[split.references[found.indices]]
        winners = majority_votes(labels, len(self.classes))[:, k - 1]
        return np.asarray(winners == self.codes[split.queries][:, None], float)

    def scorer_values(
        self, split: Split, queries: FloatArray, references: FloatArray, k: IntArray, scoring: Any
    ) -> FloatArray:
        """Return the value of a scorer of scikit-learn for each number of neighbours.

        Neighbours are searched in the training part of the split, as a scorer cannot leave a
        sample out of its own neighbours.
        """
        train = np.isin(split.references, split.train)
        rows = split.references[train]
        weight = self.weight_of(split.queries)
        options = {} if weight is None else {"sample_weight": weight}
        values = []
        for number in k:
            model = KNeighborsClassifier(min(int(number), len(rows)))
            model.fit(references[train], self.labels[rows])
            scorer = check_scoring(model, scoring)
            values.append(scorer(model, queries, self.labels[split.queries], **options))
        return np.asarray(values, float)


def _factor(mean: FloatArray, candidate: Candidate, stats: AnyStatistics) -> FloatArray:
    """Return a factor of the metric of a candidate, in its coordinates."""
    metric = interpolate(mean, candidate.interpolation)
    if candidate.n_components is None:
        eigenvalues, vectors = np.linalg.eigh(metric)
        return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T)
    return rank_limited_factor(metric, candidate.n_components, stats.total_covariance)
