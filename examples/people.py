"""Writes people.csv: 240 people who never were, for the examples of docs/tables.md.

Numbers, categories, dates, true and false, missing values; what makes an income high is the rule
below, and chance.
"""

import csv
import datetime
import random
from pathlib import Path

HEADER = (
    "person",
    "age",
    "hours",
    "schooling",
    "region",
    "owner",
    "since",
    "remark",
    "income",
)
SCHOOLING = ("none", "school", "college", "university")
REGIONS = ("north", "east", "south", "west")


def people(count=240, seed=0):
    """Rows of the table."""
    chance = random.Random(seed)
    for person in range(1, count + 1):
        age, hours = chance.randint(18, 79), round(chance.gauss(36, 9), 1)
        schooling = chance.choice(range(4))
        region = chance.choice(REGIONS)
        owner = chance.random() < age / 120
        since = datetime.date(2020, 1, 1) - datetime.timedelta(days=chance.randint(0, 9000))
        worth = 0.12 * (hours - 36) + 0.9 * (schooling - 1.5) + 1.2 * owner + 0.02 * (age - 45)
        worth += (region == "west") + chance.gauss(0, 0.7)
        yield (
            person,
            "" if chance.random() < 0.08 else age,
            hours,
            SCHOOLING[schooling],
            "" if chance.random() < 0.05 else region,
            str(owner).lower(),
            since.isoformat(),
            f"letter {chance.randint(0, 10**9)}",
            "high" if worth > 1 else "low",
        )


if __name__ == "__main__":
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *people()])
