"""The reasons of verdicts: the one declaration from which words, `--fail-on`, JUnit, JSON and the list in
docs/reference/comparison.md follow."""

from __future__ import annotations

from dataclasses import dataclass, replace

FASTER, SLOWER, SAME = "faster", "slower", "same"
UNCLEAR, NOT_JUDGED = "unclear", "not judged"
VERDICTS = (FASTER, SLOWER, SAME, UNCLEAR, NOT_JUDGED)  # in the order of a table's rows

SIDES, CLUSTERS, SESSION, RACES = "sides", "these clusters", "this session", "these races"
OF_THESE_CLUSTERS = "these clusters, as they run now: "  # begins the sentences on them
_THESE_CLUSTERS_V1 = "these nodes"  # the old word of whatever is found of clusters that esbench did not start


@dataclass(frozen=True)
class Reason:
    """The reason of a row's verdict.

    `code` names it for programs, `verdict` is its word, `v1` the word of version 1. `sentence` and `remedy` hold for
    any row; a row may have its own, with figures. `has_basis`: the figures allow to say whether the sides differ.
    `scope`: what the verdict, or without one the interval, is about; "" for nothing. `only_if_asked`: without a basis,
    it leaves a condition open only if that names the figure. `is_fault`: figures must not be used, or not be compared.
    `is_alarm`: it is said before anything else.
    """

    code: str
    verdict: str
    sentence: str
    remedy: str
    v1: str
    has_basis: bool = False
    scope: str = ""
    only_if_asked: bool = False
    is_fault: bool = False
    is_alarm: bool = False

    @property
    def what_helps(self) -> str:
        """The remedy as plain text, without marks for commands and options."""
        return self.remedy.replace("`", "")

    @property
    def of_these_clusters(self) -> Reason:
        """The same of two clusters as they are now, which esbench did not start and every round had."""
        if not self.has_basis:
            return replace(self, v1=_THESE_CLUSTERS_V1)
        code = f"{self.code}-these-clusters"
        sentence = f"{OF_THESE_CLUSTERS}{self.sentence}"
        return replace(self, code=code, sentence=sentence, v1=_THESE_CLUSTERS_V1, scope=CLUSTERS)

    @property
    def gate(self) -> str:
        """The exit code of `esbench compare --fail-on=slower` with such a row, and with no other that decides."""
        decided = "3" if self.verdict == SLOWER else "0"
        if not self.has_basis:
            return "0; 4 if the condition names the figure" if self.only_if_asked else "4"
        return f"4; {decided} with `slower:these-clusters`" if self.scope == CLUSTERS else decided


DIFFERS_FASTER = Reason(
    "faster",
    FASTER,
    "the contender is better by more than chance",
    "check above the table that only what you meant differs",
    "faster",
    has_basis=True,
    scope=SIDES,
)
DIFFERS_SLOWER = replace(
    DIFFERS_FASTER, code="slower", verdict=SLOWER, sentence="the contender is worse by more than chance", v1="slower"
)
RATE_FASTER = Reason(
    "only-contender-reached-rate",
    FASTER,
    "the baseline missed the target rate in all rounds, the contender in none",
    "a lower rate tells by how much",
    "faster",
    has_basis=True,
    scope=SIDES,
)
RATE_SLOWER = replace(
    RATE_FASTER,
    code="only-baseline-reached-rate",
    verdict=SLOWER,
    sentence="the contender missed the target rate in all rounds, the baseline in none",
    v1="slower",
)
EQUIVALENT = Reason(
    "same",
    SAME,
    "the change is smaller than --min-effect",
    "a smaller --min-effect, with more rounds, if less matters",
    "same",
    has_basis=True,
    scope=SIDES,
)
MORE_ROUNDS = Reason(
    "needs-rounds",
    UNCLEAR,
    "too few rounds for how much they differ",
    "more rounds: `esbench duel --resume SESSION --rounds=N`; each look at a result makes verdicts stricter",
    "~",
    has_basis=True,
    scope=SIDES,
)
TOO_NOISY = Reason(
    "too-noisy",
    UNCLEAR,
    "differs too much between rounds: start luck, or the task",
    "a longer task, or a larger --min-effect",
    "~",
    has_basis=True,
    scope=SIDES,
)
FEW_ROUNDS = Reason(
    "few-rounds",
    UNCLEAR,
    "fewer rounds than a verdict takes: 6, or 4 of sides that share a node",
    "`esbench duel --resume SESSION --rounds=6`",
    "few rounds",
    scope=SESSION,
)
ONE_RACE = Reason(
    "one-race-a-side",
    UNCLEAR,
    "one race a side: the next two may show the opposite",
    "`esbench duel`; or five earlier races of the baseline's setup, which are found automatically",
    "within-race only",
    scope=RACES,
)
NO_TURNS = Reason(
    "no-turns",
    UNCLEAR,
    "raced one after the other: what the machine did in between is in the difference",
    "`esbench duel`",
    "session-only",
    scope=SESSION,
)
TREND = Reason(
    "changes-over-the-rounds",
    UNCLEAR,
    "the difference of the clusters changes over the rounds",
    "wait until both have settled (merges, caches), and race again",
    _THESE_CLUSTERS_V1,
    scope=SESSION,
)
BUSY_BESIDE = Reason(
    "background-load",
    UNCLEAR,
    "background load of the other side: its nodes worked outside of their own slices",
    "longer slices (`--slice`), or wait for merges before the task",
    "busy beside",
    scope=SESSION,
)
OVERLAP = Reason(
    "overlap",
    UNCLEAR,
    "background load of the other side: its requests were in flight in these slices",
    "a longer `--slice-gap`",
    "overlap",
    scope=SESSION,
)
SHORT_SLICES = Reason(
    "short-slices",
    NOT_JUDGED,
    "requests are too long for the slices",
    "`--slice` as the row says, in a new duel",
    "slices too short",
)
FEW_REQUESTS = Reason(
    "few-requests",
    NOT_JUDGED,
    "too few requests for this figure",
    "a longer task (`--task-time`, or more documents), or a higher rate",
    "few events",
)
FEW_IN_TAIL = replace(
    FEW_REQUESTS,
    code="few-requests-in-tail",
    sentence="too few requests for a percentile from p90 up",
    only_if_asked=True,
)
SHORT_RACES = Reason(
    "short-races",
    NOT_JUDGED,
    "too few requests: two single races of under 120 s",
    "`esbench duel`, or a task of two minutes and more",
    "too short",
)
SHORT_FOR_TAIL = replace(
    SHORT_RACES,
    code="short-races-for-tail",
    sentence="too few requests for a percentile from p90 up in a fifth of a race",
    only_if_asked=True,
)
DRIVER_LIMIT = Reason(
    "driver-lag",
    NOT_JUDGED,
    "the driver was the limit: its own lag moved by half as much as the latency, or more",
    "separate cores, or a separate host, for the driver",
    "driver lag",
)
CHECK = Reason(
    "check",
    NOT_JUDGED,
    "a check of a race says that its figures must not be used",
    "what the row says in brackets",
    "!",
    is_fault=True,
)
RATE_MISSED = Reason(
    "rate-missed",
    NOT_JUDGED,
    "the rate was missed",
    "a lower rate",
    "!",
    is_fault=True,
)
MISSING = Reason(
    "missing-races",
    NOT_JUDGED,
    "some of the races lack the task",
    "compare the others without them: `esbench compare a,b,c d,e,f`",
    "!",
    is_fault=True,
)
NO_VALUE = Reason(
    "no-value",
    NOT_JUDGED,
    "some of the races have no value: requests timed out, or nothing was completed",
    "`esbench show` of these races",
    "!",
    is_fault=True,
)
NO_SECONDS = Reason(
    "no-seconds",
    NOT_JUDGED,
    "the seconds of a race are missing (seconds.jsonl)",
    "compare the other races without it",
    "!",
    is_fault=True,
)
OTHER_LOOP = Reason(
    "other-loop",
    NOT_JUDGED,
    "a closed loop and an open loop",
    "race both sides with the same loop",
    "!",
    is_fault=True,
)
NO_CAPACITY = Reason(
    "no-capacity",
    NOT_JUDGED,
    "a search found no capacity",
    "what `esbench show` of the race says",
    "!",
    is_fault=True,
)
NO_EQUAL_RECALL = Reason(
    "no-equal-recall",
    NOT_JUDGED,
    "no recall is reached by both sides",
    "more candidates on the side that finds less, or fewer on the other; `--recall` asks for other recalls",
    "!",
    is_fault=True,
)
NOT_COMPARABLE = Reason(
    "not-comparable",
    NOT_JUDGED,
    "the sides did not do the same work, or not on the same kind of host",
    "race again under equal conditions; `--allow=KEY` if it does not matter",
    "!",
    is_fault=True,
)
OTHER_HOSTS = Reason(
    "other-hosts",
    NOT_JUDGED,
    "the clusters run on different hosts, where esbench did not start them",
    "`--allow=node-host` if the hosts are alike, or are what is compared",
    _THESE_CLUSTERS_V1,
)
OTHER_DOCUMENTS = Reason(
    "other-documents",
    NOT_JUDGED,
    "the clusters hold different documents",
    "load both with the same documents; `--allow=answers` if it does not matter",
    _THESE_CLUSTERS_V1,
)
MORE_ERRORS = Reason(
    "more-errors",
    NOT_JUDGED,
    "more requests failed on the side that was faster",
    "see the errors: `esbench show RACE`; `--max-error-rise` allows more",
    "! errors",
    is_fault=True,
    is_alarm=True,
)
LOWER_SCORES = Reason(
    "lower-scores",
    NOT_JUDGED,
    "the replies of the side that was faster score lower",
    "compare tasks whose scores are the same; `--min-recall-effect` allows a larger fall",
    "! scores",
    is_fault=True,
    is_alarm=True,
)
ANSWERS_DIFFER = Reason(
    "answers-differ",
    NOT_JUDGED,
    "the answers differ",
    "see the requests below the table; `--allow=answers` judges the figures anyway",
    "answers differ",
    is_fault=True,
    is_alarm=True,
)
RECALL_UNKNOWN = Reason(
    "recall-unknown",
    NOT_JUDGED,
    "an approximate search may be faster because it finds less",
    "compare the recall; `--allow=answers` judges the figures anyway",
    "recall unknown",
)

_WITH_BASIS = (
    *(DIFFERS_FASTER, DIFFERS_SLOWER, RATE_FASTER, RATE_SLOWER, EQUIVALENT),
    *(MORE_ROUNDS, TOO_NOISY),
)
REASONS = (
    *_WITH_BASIS,
    *(each.of_these_clusters for each in _WITH_BASIS if each not in (RATE_FASTER, RATE_SLOWER)),
    *(TREND, FEW_ROUNDS, ONE_RACE, NO_TURNS, BUSY_BESIDE, OVERLAP),
    *(FEW_REQUESTS, FEW_IN_TAIL, SHORT_RACES, SHORT_FOR_TAIL, SHORT_SLICES, DRIVER_LIMIT),
    *(CHECK, RATE_MISSED, MISSING, NO_VALUE, NO_SECONDS, OTHER_LOOP, NO_CAPACITY, NO_EQUAL_RECALL),
    *(NOT_COMPARABLE, OTHER_HOSTS, OTHER_DOCUMENTS, MORE_ERRORS, LOWER_SCORES, ANSWERS_DIFFER, RECALL_UNKNOWN),
)
