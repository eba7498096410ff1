"""Simulated records of people, typed twice: names and addresses with typos and abbreviations."""

from __future__ import annotations

GIVEN = (
    "Anna Amir Beata Bruno Carla Chidi Dana David Elena Emil Fatima Felix Grace Hugo Ines Ivan "
    "Jana Jonas Karin Kofi Laura Liam Maria Mateo Nadia Noah Olga Omar Paula Pavel Rosa Ruben "
    "Sara Simon Tanja Tomas Ursula Victor Wanda Yusuf"
)
FAMILY = (
    "Adams Bauer Becker Bianchi Brown Costa Dahl Diaz Evans Fischer Garcia Hansen Ito Jansen "
    "Keller Kowalski Larsen Lopez Martin Meyer Moreau Nowak Okafor Olsen Patel Perez Petrov Rossi "
    "Santos Schmidt Silva Singh Tanaka Taylor Torres Vogel Wagner Weber Yilmaz Zimmer"
)
STREET = (
    "Abbey Bridge Castle Chapel Church Garden Harbour High Hill King Lake Market Meadow Mill "
    "Orchard Park Queen River School Station Tower Victoria Walnut Willow"
)
TOWN = (
    "Ashford Bedford Carlisle Dover Exeter Glasgow Hereford Ipswich Kendal Lincoln Norwich Oxford "
    "Preston Reading Salford Taunton"
)
KIND = {"Street": "St.", "Road": "Rd.", "Lane": "Ln."}


def people(n_people, rng):
    """Return records of people, a third of whom live with the person before them."""
    records, home = [], ("", "")
    for _ in range(n_people):
        if not records or rng.random() > 1 / 3:
            street = f"{rng.integers(1, 120)} {rng.choice(STREET.split())} {rng.choice(list(KIND))}"
            home = rng.choice(FAMILY.split()), f"{street}, {rng.choice(TOWN.split())}"
        records.append(f"{rng.choice(GIVEN.split())} {home[0]}, {home[1]}")
    return records


def typed_again(record, n_typos, rng):
    """Return a record as somebody else types it: initials, other order, no town, typos."""
    name, address, town = record.split(", ")
    given, family = name.split(" ")
    forms = [f"{given} {family}", f"{family}, {given}", f"{given[0]}. {family}"]
    if rng.random() < 0.5:
        for word, short in KIND.items():
            address = address.replace(word, short)
    parts = [rng.choice(forms), address, town][: 2 + (rng.random() < 0.8)]
    text = ", ".join(parts)
    for _ in range(rng.poisson(n_typos)):
        i = rng.integers(len(text) - 1)
        # A letter is left out, typed twice, or swapped with the next.
        typo = rng.choice(["", 2 * text[i], text[i + 1] + text[i]])
        text = text[:i] + typo + text[i + 1 + (typo == text[i + 1] + text[i]) :]
    return text
