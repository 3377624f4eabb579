"""Skills discovered from a corpus and the rewrites that they make."""

from schemas.contract import Column, Table

SKILLS = Table(
    name="skills",
    meaning="one rewriting skill of a corpus",
    partition=("run", "corpus"),
    columns=(
        Column(name="run", type="string", key=True, meaning="run that discovered or kept it"),
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        Column(name="version", type="string", key=True, meaning="fingerprint of the skill set"),
        Column(name="skill_id", type="string", key=True, meaning="skill"),
        Column(name="name", type="string", meaning="short name"),
        Column(name="description", type="string", meaning="when it applies"),
        Column(name="instruction", type="string", meaning="how to rewrite"),
        Column(name="domains", type="list of string", meaning="domains that it covers"),
        Column(name="provenance", type="json", meaning="model, round, clusters, pins and edits"),
    ),
)

REWRITES = Table(
    name="rewrites",
    meaning="one query rewritten by one method",
    partition=("run", "corpus"),
    columns=(
        Column(name="run", type="string", key=True, meaning="run that rewrote"),
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        Column(name="version", type="string", key=True, meaning="fingerprint of the skill set"),
        Column(name="skill_id", type="string", key=True, meaning="skill, or the method's name"),
        Column(name="query_id", type="string", key=True, meaning="retrieval query"),
        Column(name="query", type="string", meaning="original query"),
        Column(name="rewrite", type="string", meaning="text that retrieves"),
        Column(name="model", type="string", meaning="who rewrote: a model, or offline-baseline"),
        Column(name="fallback", type="string", nullable=True, meaning="why the original query was kept"),
    ),
)

TABLES = (SKILLS, REWRITES)
