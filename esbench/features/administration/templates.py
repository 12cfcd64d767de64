"""Template operations: legacy, composable and component templates, from the track or from the operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError, closest
from esbench.measure.verdict import Verdict
from esbench.model import Template, Templates, Track
from esbench.operations.administrative import (
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    delete_matching,
    if_exists,
    in_turn,
    named,
    query_of,
    segment,
    sending,
)
from esbench.operations.base import ADMINISTRATIVE, OF_THE_CLUSTER, TaskContext, Traits
from esbench.operations.index_settings import with_settings
from esbench.operations.parameters import Parameter, flag
from esbench.requests.exchange import Run, ScriptSession

COMPOSABLE = Feature("composable templates", (7, 8), (1, 0))


@dataclass(frozen=True)
class _Kind:
    """A kind of template: its name in operation types and in the track, its path, what a server must be able to do.

    `of` returns those of a track; `body` a body with further settings.
    """

    name: str
    word: str
    path: str
    of: Callable[[Templates], tuple[Template, ...]]
    body: Callable[[TaskContext, Mapping[str, Any]], dict[str, Any]]
    feature: Feature | None = None


def _legacy_body(context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
    return context.dialect.template_body(with_settings(body, context.params.get("settings")))


def _composable_body(context: TaskContext, body: Mapping[str, Any]) -> dict[str, Any]:
    settings = context.params.get("settings")
    return {**body, "template": with_settings(body.get("template") or {}, settings)} if settings else dict(body)


def _create(kind: _Kind, context: TaskContext) -> Iterable[Call]:
    params = context.params
    if params.get("body") is not None:
        if not isinstance(params.get("template"), str):
            what = f'{context.task.operation.type} with a "body" needs a "template"'
            raise TrackError(what, where=context.where)
        templates: tuple[Template, ...] = (Template(params["template"], params["body"]),)
    elif _idleness(kind, params, context.templates):
        templates = ()
    else:
        templates = _chosen(
            kind.of(context.templates), params, context.where, 'give the operation "template" and "body"'
        )
    for template in templates:
        try:
            body = kind.body(context, template.body)
        except TrackError as error:
            raise TrackError(error.what, where=context.where, hint=error.hint) from None
        yield Call("PUT", f"{kind.path}/{segment(template.name)}", query_of(params), body)


def _idleness(kind: _Kind, params: Mapping[str, Any], templates: Templates) -> str:
    if params.get("body") is None and _is_foreign(wanted := params.get("template"), kind.of(templates)):
        return f'the track has no template "{wanted}" of the kind, and the operation no body: it creates nothing'
    return ""


def _delete(kind: _Kind, context: TaskContext) -> Run:
    """Return a function that deletes templates, and then the indices that match their patterns if that is asked for."""
    params = context.params
    templates = _to_delete(kind, params, context.templates, context.where)
    query, accept = query_of(params), if_exists(params)
    paths = [f"{kind.path}/{segment(template.name)}" for template in templates]
    delete_templates = sending(tuple(Call("DELETE", path, query, accept=accept) for path in paths), context.ledger)

    async def run(session: ScriptSession) -> Verdict:
        verdict = await delete_templates(session)
        for pattern in _patterns(params, templates):
            await delete_matching(session, pattern, context.ledger, {})
        return verdict

    return run


def _to_delete(kind: _Kind, params: Mapping[str, Any], declared: Templates, where: str) -> tuple[Template, ...]:
    templates = kind.of(declared)
    if _is_foreign(params.get("template"), templates):
        return (_own(params, where),)
    return _chosen(templates, params, where, 'give the operation a "template"')


def _patterns(params: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[str]:
    """Yield the patterns of the indices that are deleted with templates."""
    for template in templates:
        delete_indices = flag(params.get("delete-matching-indices"), template.delete_matching_indices)
        if template.index_pattern and delete_indices:
            yield template.index_pattern


def _is_foreign(wanted: Any, templates: tuple[Template, ...]) -> bool:
    """True if `wanted` names a template that the track does not declare, and is not a misspelling of a declared one."""
    known = {template.name for template in templates}
    return isinstance(wanted, str) and wanted not in known and not closest(wanted, known)


def _own(params: Mapping[str, Any], where: str) -> Template:
    """Return a template that the track does not declare; its indices are kept unless the operation deletes them."""
    delete_indices = flag(params.get("delete-matching-indices"))
    if delete_indices and not params.get("index-pattern"):
        raise TrackError(
            '"delete-matching-indices" needs an "index-pattern"',
            where=where,
            hint=f'the track does not declare the template "{params["template"]}"',
        )
    return Template(params["template"], {}, params.get("index-pattern"), delete_indices)


def _chosen(
    templates: tuple[Template, ...], params: Mapping[str, Any], where: str, otherwise: str
) -> tuple[Template, ...]:
    """Return the track's templates that the operation names, or all; raises TrackError for an unknown one."""
    if not templates:
        raise TrackError("the track declares no such template", where=where, hint=otherwise)
    return named(templates, params.get("template"), "template", where)


def _deleted(kind: _Kind, params: Mapping[str, Any], track: Track) -> Iterator[str]:
    return _patterns(params, _to_delete(kind, params, track.templates, ""))


_CREATE = {
    "template": Parameter("which templates of the track; all by default", (str, list)),
    "settings": Parameter("settings merged into those of the template", (dict,)),
    "body": Parameter("its own body, with template", (dict,)),
    "request-params": QUERY,
}
_CHOICE = "which templates of the track, or the name of another one; all of the track by default"
_DELETE = {"template": Parameter(_CHOICE, (str, list)), "only-if-exists": ONLY_IF_EXISTS}
_INDICES = {
    "delete-matching-indices": Parameter("delete the indices of its pattern, too; the track's own say it", (bool,)),
    "index-pattern": Parameter("which indices those are, for a template that the track does not declare"),
}


def _types(
    kind: _Kind, has_patterns: bool = True, traits: Traits = ADMINISTRATIVE
) -> tuple[AdministrativeType, AdministrativeType]:
    """Return the types that create and delete templates of a kind; `has_patterns`: indices match these templates."""
    return (
        AdministrativeType(
            f"create-{kind.name}-template",
            f"Create the track's {kind.word} templates, or one from its own body.",
            _CREATE,
            in_turn(partial(_create, kind)),
            traits=traits,
            feature=kind.feature,
            idle=partial(_idleness, kind),
        ),
        AdministrativeType(
            f"delete-{kind.name}-template",
            f"Delete the track's {kind.word} templates, or the named one"
            f"{', and the indices of their patterns' if has_patterns else ''}.",
            {**_DELETE, **(_INDICES if has_patterns else {}), "request-params": QUERY},
            partial(_delete, kind),
            traits=traits,
            feature=kind.feature,
            deleted=partial(_deleted, kind) if has_patterns else lambda params, track: (),
        ),
    )


_LEGACY = _Kind("index", "legacy", "/_template", attrgetter("legacy"), _legacy_body)
_COMPOSABLE = _Kind(
    "composable", "composable", "/_index_template", attrgetter("composable"), _composable_body, COMPOSABLE
)
_COMPONENT = _Kind(
    "component", "component", "/_component_template", attrgetter("component"), _composable_body, COMPOSABLE
)
TYPES = (*_types(_LEGACY, traits=OF_THE_CLUSTER), *_types(_COMPOSABLE), *_types(_COMPONENT, has_patterns=False))
