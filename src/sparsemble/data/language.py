"""The rules of the built-in language: a sketch of English with 233 words.

What there is to learn beside word frequencies: a verb agrees in number with a subject that may
stand far to the left; adjectives, verbs and relative pronouns go with the subject's class, objects
with their verb; `then`, `or`, `therefore` and `and` close what `if`, `either`, `because`, `both`
and `between` opened. The number after `the` shows only in the noun.

Every sentence has exactly one derivation, since reading from the left the next word alone always
decides which rule applies (the grammar is LL(1)): the rules of a symbol begin with different
words, and where a symbol may be empty, no word it can begin with can come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

START = "Sentence"
_NOUNS = {
    "person": "girl/girls boy/boys man/men woman/women child/children farmer/farmers "
    "baker/bakers teacher/teachers doctor/doctors singer/singers",
    "animal": "dog/dogs cat/cats horse/horses bird/birds cow/cows fox/foxes goat/goats "
    "mouse/mice rabbit/rabbits wolf/wolves",
    "food": "loaf/loaves pie/pies cake/cakes potato/potatoes carrot/carrots berry/berries "
    "pear/pears nut/nuts",
    "tool": "hammer/hammers knife/knives box/boxes ladder/ladders wheel/wheels spade/spades "
    "rope/ropes lamp/lamps",
}
_ADJECTIVES = {
    "person": "kind clever busy polite famous",
    "animal": "wild tame furry hungry fierce",
    "food": "fresh sweet stale salty delicious",
    "tool": "heavy rusty wooden broken shiny",
}
_INTRANSITIVE = {
    "person": "works/work laughs/laugh sings/sing waits/wait",
    "animal": "sleeps/sleep runs/run hides/hide jumps/jump",
    "food": "rots/rot dries/dry",
    "tool": "falls/fall breaks/break squeaks/squeak",
}
_TRANSITIVE = {
    ("person", "person"): "helps/help knows/know greets/greet thanks/thank visits/visit",
    ("person", "animal"): "feeds/feed trains/train washes/wash sells/sell",
    ("person", "food"): "cooks/cook bakes/bake tastes/taste slices/slice",
    ("person", "tool"): "uses/use carries/carry repairs/repair borrows/borrow",
    ("animal", "person"): "follows/follow wakes/wake guards/guard",
    ("animal", "animal"): "chases/chase bites/bite fights/fight",
    ("animal", "food"): "eats/eat steals/steal sniffs/sniff",
}
_SAYING = "says/say thinks/think hopes/hope believes/believe"
_PRONOUNS = {"person": "who", "animal": "which", "food": "which", "tool": "which"}
_ALWAYS_THERE = {
    "Article.one": "a every this one",
    "Article.many": "some many these several two",
    "Name": "anna ben clara david emma felix greta hugo",
    "Place": "house river road barn village market bridge hill forest mill",
    "Preposition": "near behind beside opposite",
}
_MAYBE_THERE = {
    "Adverb?": "often never always sometimes rarely",
    "Time?": "today now tomorrow tonight",
}
_SUBJECTS = {"person": 5.0, "animal": 3.0, "food": 1.0, "tool": 1.0}

Rules = dict[str, dict[str, float]]


def rules() -> Rules:
    """The right sides of every symbol's rules, and their weights; words are in small letters."""
    table: Rules = {
        START: {"Thought Time?": 1},
        "Thought": {
            "Clause": 86,
            "if Thought then Thought": 6,
            "either Thought or Thought": 5,
            "because Thought therefore Thought": 3,
        },
        "Where": {"Preposition the Place": 4, "between the Place and the Place": 1},
    }
    _add_words(table)
    _add_noun_phrase(
        table,
        "Clause",
        _SUBJECTS,
        lambda kind, number: f"Tail.{kind}.{number} Verbal.{kind}.{number}",
    )
    table["Clause"] |= {
        "Name Verbal.person.one": 20,
        "both Name and Name Verbal.person.many": 5,
    }
    for kind in _NOUNS:
        _add_noun_phrase(table, f"Object.{kind}", {kind: 1.0}, "Tail.{}.{}".format)
        _add_relative_clauses(table, kind)
        for number in ("one", "many"):
            table[f"Verbal.{kind}.{number}"] = {f"Adverb? Verb.{kind}.{number}": 1}
            table[f"Verb.{kind}.{number}"] = _verbs(kind, number)
    table["Object.person"]["Name"] = 30
    return table


def _verbs(kind: str, number: str) -> dict[str, float]:
    """What a subject of this class and number can do or be."""
    verbs: dict[str, float] = {
        f"Intransitive.{kind}.{number}": 30,
        f"Copula.{number} Adjective.{kind}": 15,
    }
    for subject, thing in _TRANSITIVE:
        if subject == kind:
            verbs[f"Transitive.{kind}.{thing}.{number} Object.{thing}"] = 15
    if kind == "person":
        verbs[f"Saying.{number} that Clause"] = 10
    return verbs


def _add_relative_clauses(table: Rules, kind: str) -> None:
    """What may follow a noun: a place, a relative clause, or both in this order, or nothing.

    Places take neither, so it is always clear which noun a relative clause belongs to. The noun is
    the subject of the clause, `who sings`, or its object, `who the dog follows`.
    """
    actors = {actor: _SUBJECTS[actor] for actor, thing in _TRANSITIVE if thing == kind}
    gap = f"Gap.{kind}"
    _add_noun_phrase(
        table,
        gap,
        actors,
        lambda actor, number: f"Tail.{actor}.{number} Acts.{actor}.{kind}.{number}",
    )
    table[gap][f"Name Acts.person.{kind}.one"] = 20
    for number in ("one", "many"):
        for actor in actors:
            acts = f"Adverb? Transitive.{actor}.{kind}.{number}"
            table[f"Acts.{actor}.{kind}.{number}"] = {acts: 1}
        relative = f"{_PRONOUNS[kind]} Relative.{kind}.{number}"
        table[f"Relative.{kind}.{number}"] = {f"Verbal.{kind}.{number}": 6, gap: 4}
        table[f"Which?.{kind}.{number}"] = {"": 80, relative: 20}
        table[f"Tail.{kind}.{number}"] = {
            "": 70,
            f"Where Which?.{kind}.{number}": 14,
            relative: 16,
        }


def _add_noun_phrase(
    table: Rules, name: str, kinds: Mapping[str, float], rest: Callable[[str, str], str]
) -> None:
    """A noun phrase of one of `kinds` and what `rest` puts after a noun of a class and number.

    The article tells the number, but for `the`; the first adjective tells the class.
    """
    table[name] = {
        f"Article.one {name}.one": 35,
        f"Article.many {name}.many": 20,
        f"the {name}.one-or-many": 25,
    }
    for shown in ("one", "many", "one-or-many"):
        table[f"{name}.{shown}"] = {}
        for kind, weight in kinds.items():
            described = f"{name}.{shown}.{kind}"
            sides = {f"Adjective.{kind} {described}": 1.5}
            for number, share in (("one", 5.0), ("many", 3.0)):
                if number in shown.split("-or-"):
                    sides[f"Noun.{kind}.{number} {rest(kind, number)}"] = share
            table[described] = sides
            table[f"{name}.{shown}"] |= {side: weight * share for side, share in sides.items()}


def _add_words(table: Rules) -> None:
    for symbol, words in _ALWAYS_THERE.items():
        table[symbol] = _by_rank(words.split())
    for symbol, words in _MAYBE_THERE.items():
        table[symbol] = {"": 10, **_by_rank(words.split())}
    for kind, words in _ADJECTIVES.items():
        table[f"Adjective.{kind}"] = _by_rank(words.split())
    pairs = {f"Noun.{kind}": words for kind, words in _NOUNS.items()}
    pairs |= {f"Intransitive.{kind}": words for kind, words in _INTRANSITIVE.items()}
    pairs |= {f"Transitive.{who}.{what}": words for (who, what), words in _TRANSITIVE.items()}
    pairs |= {"Saying": _SAYING, "Copula": "is/are"}
    for symbol, words in pairs.items():
        one, many = zip(*(pair.split("/") for pair in words.split()), strict=True)
        table[f"{symbol}.one"], table[f"{symbol}.many"] = _by_rank(one), _by_rank(many)


def _by_rank(words: Sequence[str]) -> dict[str, float]:
    """Zipf's law: the weight of a word is one over its rank."""
    return {word: 1 / rank for rank, word in enumerate(words, start=1)}
