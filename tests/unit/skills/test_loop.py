"""The discovery loop as a state machine: what it asks, what it makes of good and bad answers, when it stops."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.skills.loop import Answer, Limits, State, call_bound, discover, tasks
from jobs.skills.skill import Cluster, Draft, Profile, Skill, Verdict, skill_id_of


def clusters(number):
    return tuple(
        Cluster(
            id=n,
            size=10 + n,
            representatives=(f"text {n}",),
            samples=(f"more {n}",),
            terms=("a", "b"),
            fingerprint=str(n),
        )
        for n in range(number)
    )


def draft(name, *, instruction=None, domains=("d",)):
    return Draft(name=name, description="when", instruction=instruction or f"do {name}", domains=domains)


class Script:
    """Agents that answer by kind from functions of the task; counts what was asked."""

    name = "script"

    def __init__(
        self, *, propose, judge, refine=lambda task: None, profile=lambda task: Profile(domain="d", content_type="c")
    ):
        self.makers = {"characterise": profile, "propose": propose, "judge": judge, "refine": refine}
        self.asked = []

    def answer(self, asked):
        self.asked += asked
        return [Answer(key=one.key, value=self.makers[one.kind](one), problem="as scripted") for one in asked]

    def count(self, kind):
        return sum(one.kind == kind for one in self.asked)


def covered(skill_id):
    return lambda task: Verdict(cluster=task.clusters[0].id, kind="covered", skill_id=skill_id)


def test_it_stops_as_soon_as_everything_is_covered():
    agents = Script(propose=lambda task: (draft("one"),), judge=covered("one"))
    final = discover(State(limits=Limits(), clusters=clusters(4)), agents)
    assert final.stopped == "every cluster is covered"
    assert [one.round for one in final.rounds] == [1]
    assert final.rounds[0].coverage == final.rounds[0].document_coverage == 1
    assert final.skills[0].clusters == (0, 1, 2, 3)
    assert (agents.count("characterise"), agents.count("propose"), agents.count("judge")) == (4, 1, 4)


def test_only_uncovered_clusters_are_judged_again_and_refinement_keeps_the_domain():
    def judge(task):
        done = task.clusters[0].id != 2 or "wider" in task.skills[0].instruction
        return Verdict(cluster=task.clusters[0].id, kind="covered" if done else "refine", skill_id="one")

    agents = Script(
        propose=lambda task: (draft("one"),),
        judge=judge,
        refine=lambda task: draft("another name", instruction="wider", domains=("new",)),
    )
    final = discover(State(limits=Limits(), clusters=clusters(4)), agents)
    assert final.stopped == "every cluster is covered"
    assert agents.count("judge") == 4 + 1
    assert (final.skills[0].skill_id, final.skills[0].domains) == ("one", ("d", "new"))
    assert final.skills[0].why == "proposed in round 1 for 4 clusters; broadened in round 1 for clusters 2"


def test_uncovered_clusters_get_a_further_skill_within_the_cap():
    def judge(task):
        names = [one.skill_id for one in task.skills]
        cluster = task.clusters[0].id
        name = "two" if cluster > 1 else "one"
        return (
            Verdict(cluster=cluster, kind="covered", skill_id=name)
            if name in names
            else Verdict(cluster=cluster, kind="new")
        )

    def propose(task):
        return (draft("one"),) if not task.skills else (draft("two"),)

    agents = Script(propose=propose, judge=judge)
    final = discover(State(limits=Limits(max_skills=2), clusters=clusters(4)), agents)
    assert [one.skill_id for one in final.skills] == ["one", "two"]
    assert [one.id for one in agents.asked[9].clusters] == [2, 3]
    assert final.stopped == "every cluster is covered"


@pytest.mark.parametrize(
    ("drafts", "kept", "reason", "why"),
    [
        ((draft("one"), draft("One!")), ["one"], "doubles", "same name in another spelling"),
        ((draft("one", instruction="do x"), draft("two", instruction="Do  X")), ["one"], "doubles", "same instruction"),
        ((draft("a"), draft("b"), draft("c")), ["a", "b"], "beyond the cap", "too many"),
        ((draft("???"), draft("one")), ["one"], "empty", "a name without letters"),
        ((draft("one", domains=()), draft("two")), ["two"], "empty", "no domain"),
        ((draft("gone"), draft("one")), ["one"], "reviewer removed", "a reviewer removed it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_proposed_is_checked_and_drops_are_recorded(drafts, kept, reason, why):
    state = State(limits=Limits(max_skills=2), clusters=clusters(1), retired=frozenset({"gone"}))
    final = discover(state, Script(propose=lambda task: drafts, judge=covered(kept[0])))
    assert [one.skill_id for one in final.skills] == kept, why
    assert any(reason in one.reason for one in final.drops)


def test_a_bad_proposal_is_asked_again_and_none_at_all_ends_the_run():
    tries = []

    def second_time(task):
        tries.append(task.key)
        return (draft("one"),) if len(tries) == 2 else None

    assert discover(
        State(limits=Limits(), clusters=clusters(1)), Script(propose=second_time, judge=covered("one"))
    ).skills
    assert tries == ["propose/1", "propose/2"]
    none = discover(
        State(limits=Limits(), clusters=clusters(1)), Script(propose=lambda task: None, judge=covered("one"))
    )
    assert none.stopped == "no usable skill was proposed"
    assert len(none.drops) == 3


def test_lost_profiles_fall_back_to_terms_and_lost_verdicts_are_unknown():
    agents = Script(propose=lambda task: (draft("one"),), judge=lambda task: None, profile=lambda task: None)
    final = discover(State(limits=Limits(max_rounds=1), clusters=clusters(2)), agents)
    assert final.profiles[0] == Profile(domain="a, b", content_type="document", source="terms")
    assert final.verdicts[1].kind == "unknown"
    assert final.stopped == "1 rounds are over"


def test_held_skills_are_judged_first_and_never_refined():
    pinned = Skill(skill_id="mine", name="mine", description="d", instruction="i", domains=("d",), pinned=True)
    agents = Script(
        propose=lambda task: (),
        refine=lambda task: draft("x", instruction="other"),
        judge=lambda task: Verdict(cluster=task.clusters[0].id, kind="refine", skill_id="mine"),
    )
    final = discover(State(limits=Limits(), clusters=clusters(2), skills=(pinned,)), agents)
    assert agents.count("refine") == 0
    assert agents.asked[2].kind == "judge"
    assert replace(final.skills[0], clusters=()) == pinned
    assert final.stopped == "nothing more to change"


def test_kept_profiles_and_verdicts_are_not_asked_for():
    skill = Skill(skill_id="one", name="one", description="d", instruction="i", domains=("d",))
    state = State(
        limits=Limits(),
        clusters=clusters(3),
        skills=(skill,),
        profiles={n: Profile(domain="d", content_type="c", source="kept") for n in (0, 1)},
        verdicts={n: Verdict(cluster=n, kind="covered", skill_id="one") for n in (0, 1)},
    )
    agents = Script(propose=lambda task: (), judge=covered("one"))
    final = discover(state, agents)
    assert [one.key for one in agents.asked] == ["characterise/2", "judge/1/2"]
    assert final.skills[0].clusters == (0, 1, 2)


def test_a_skill_whose_documents_went_gives_its_room_unless_a_person_holds_it_or_a_verdict_is_lost():
    base = Skill(skill_id="old", name="old", description="d", instruction="i", domains=("d",), clusters=(7,))
    state = State(limits=Limits(max_skills=1), clusters=clusters(2))

    def judge(task):
        fits = "new-one" in {one.skill_id for one in task.skills}
        return Verdict(cluster=task.clusters[0].id, kind="covered" if fits else "new", skill_id="new-one" * fits)

    def left(skill, verdict=judge):
        agents = Script(propose=lambda task: (draft("new one"),), judge=verdict)
        return discover(replace(state, skills=(skill,)), agents)

    final = left(base)
    assert [one.skill_id for one in final.skills] == ["new-one"]
    assert [(one.what, one.reason) for one in final.drops] == [("skill old", "it covers no document any more")]
    for kept in (replace(base, pinned=True), replace(base, edited=True), replace(base, clusters=())):
        assert [one.skill_id for one in left(kept).skills] == ["old"]
    assert [one.skill_id for one in left(base, lambda task: None).skills] == ["old"]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_any_answers_end_within_the_bound_of_calls(number, most, rounds, random):
    def judge(task):
        kind = random.choice(["covered", "refine", "new", None])
        if kind is None:
            return None
        skill = "" if kind == "new" else random.choice(task.skills).skill_id
        return Verdict(cluster=task.clusters[0].id, kind=kind, skill_id=skill)

    def propose(task):
        return tuple(draft(f"s{random.randint(0, 9)}") for _ in range(random.randint(0, 7))) or None

    agents = Script(propose=propose, judge=judge, refine=lambda task: draft("r", instruction=str(random.random())))
    limits = Limits(max_skills=most, max_rounds=rounds)
    final = discover(State(limits=limits, clusters=clusters(number)), agents)
    assert final.phase == "done"
    assert len(final.skills) <= most
    assert len(final.rounds) <= rounds
    assert len(agents.asked) <= call_bound(clusters=number, limits=limits)
    assert len({one.key for one in agents.asked}) == len(agents.asked)
    assert tasks(final) == ()


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("Clinical terms — für Ärzte", "clinical-terms-fur-arzte"),
        ("x" * 80, "x" * 64),
        ("../../etc", "etc"),
        ("日本", ""),
        ("Generic", "generic-skill"),
        ("/versions/", "versions-skill"),
        ("transcripts", "transcripts-skill"),
        ("!" + "x" * 70, "x" * 64),
    ],
    ids=["accents", "too long", "a path", "no Latin letter", "reserved", "a folder", "another", "too long again"],
)
def test_skill_ids_are_safe_folder_names(name, want):
    assert skill_id_of(name) == want
