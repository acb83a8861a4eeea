"""A plan for people: each figure and how it came about."""

from cache.kv_plan.derivation import derivation, notes
from cache.kv_plan.plan import KvPlan


def render_text(plan: KvPlan) -> str:
    """Lines of aligned columns, the notes after them."""
    kind = plan.layout.full.kind.value
    gpus = f", {plan.options.ranks} GPUs" if plan.options.ranks > 1 else ""
    title = f"{plan.config.architecture}: {kind}, {plan.dtype}{gpus}"
    lines = derivation(plan)
    names = max(len(line.name) for line in lines)
    values = max(len(line.value) for line in lines)
    rows = [
        f"  {line.name:<{names}}  {line.value:>{values}}  {line.how}".rstrip() for line in lines
    ]
    told = [f"  note: {note}" for note in notes(plan)]
    return "\n".join([title, *rows, *told]) + "\n"
