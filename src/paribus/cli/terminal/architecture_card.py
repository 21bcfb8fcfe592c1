"""One architecture on a card: its blocks, its masks, its price."""

from __future__ import annotations

from collections.abc import Iterator

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.arguments import NamedArchitecture, architecture_notes
from paribus.cli.terminal.field_format import format_field, format_ranges
from paribus.cli.terminal.mask_drawing import MaskPanel, draw_mask, mask_panels
from paribus.cli.terminal.price_table import LEGEND, describe_lengths, price_table
from paribus.spec import (
    Block,
    Dense,
    Experts,
    Latent,
    MultiHead,
    Price,
    ResolvedArchitecture,
    Stack,
    architecture_fingerprint,
)

_PICTURES_WIDTH = 120  # where the page is wider, pictures still break into rows


def print_architecture_card(arch: NamedArchitecture, price: Price, page: Console) -> None:
    """Print all that is known of an architecture before it is built."""
    page.print(arch.name, style="bold")
    if arch.about:
        page.print(arch.about)
    for note in architecture_notes([arch]):
        page.print(note, style="yellow")
    page.print()
    page.print(_fact_table(arch.spec))
    page.print()
    page.print(_block_table(arch.spec))
    page.print()
    page.print(_mask_pictures(arch.spec, price, page), width=min(page.width, _PICTURES_WIDTH))
    page.print()
    page.print(price_table([arch.name], [price], has_header=False))
    page.print()
    page.print(f"At {describe_lengths(price, arch.spec.stack.masks)}. {LEGEND}", style="dim")


def _fact_table(spec: ResolvedArchitecture) -> Table:
    dump = spec.model_dump(mode="json")
    rows = {
        "fingerprint": architecture_fingerprint(spec)[:12],
        "sizes": f"n_vocab={spec.n_vocab}, max_length={spec.max_length}, d_model={spec.d_model}",
        "norm": f"{spec.placement}, {format_field(dump['norm'])}",
        "positions": format_field(dump["stack"]["positions"]),
        **{name: format_field(dump[name]) for name in ("embedding", "head", "init", "dropout")},
    }
    if spec.stack.cross_positions != "none":
        rows["positions"] += f", in cross-attention {spec.stack.cross_positions}"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _block_table(spec: ResolvedArchitecture) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    for name, stack in _named_stacks(spec):
        for block, layers in _layers_by_block(stack).items():
            heading = f"{name} {format_ranges(layers)}"
            for label, text in _block_lines(block):
                table.add_row(heading, label, text)
                heading = ""
    if spec.is_one_stack:
        table.add_row("", "", "the encoder is the stack itself, and has no parameter of its own")
    elif spec.shared:
        table.add_row(
            "", "", "the encoder's blocks are the stack's own, without the cross-attention"
        )
    return table


def _named_stacks(spec: ResolvedArchitecture) -> Iterator[tuple[str, Stack]]:
    if spec.encoder is not None:
        yield "encoder layers", spec.encoder
        yield "decoder layers", spec.stack
    else:
        yield "layers", spec.stack


def _layers_by_block(stack: Stack) -> dict[Block, list[int]]:
    layers: dict[Block, list[int]] = {}
    for number, block in enumerate(stack.layers):
        layers.setdefault(block, []).append(number)
    return layers


def _block_lines(block: Block) -> Iterator[tuple[str, str]]:
    yield "mask", str(block.mask)
    yield "attention", _describe_attention(block.attention)
    if block.cross is not None:
        form = ", merged with self-attention" if block.cross_form == "merged" else ""
        yield "cross-attention", f"to the source, {block.cross}{form}"
    yield "feed-forward", _describe_feed_forward(block.feed_forward)
    if isinstance(block.feed_forward, Experts):
        dump = block.feed_forward.model_dump(mode="json")
        yield "router", format_field(dump["router"])
        yield "balance", format_field(dump["balance"])


def _describe_attention(attention: MultiHead | Latent) -> str:
    if isinstance(attention, Latent):
        if attention.d_query_latent:
            queries = f", queries from {attention.d_query_latent}"
        else:
            queries = ""
        return (
            f"latent {attention.d_latent}: {attention.n_heads} heads × ({attention.d_content} + "
            f"{attention.d_rotary} rotary), values × {attention.d_value}{queries}"
        )
    assert attention.d_head
    features = [f"{attention.n_heads} heads × {attention.d_head}"]
    if attention.n_kv_heads != attention.n_heads:
        features.append(f"{attention.n_kv_heads} key/value heads")
    if attention.bias:
        features.append("bias")
    if attention.qk_norm == "fixed":
        features.append("query-key norm without gains")
    elif attention.qk_norm:
        features.append("query-key norm")
    if attention.value_norm:
        features.append("value norm")
    if attention.output_norm:
        features.append("output norm")
    if attention.score_scale != attention.d_head**-0.5:
        features.append(f"scores × {attention.score_scale:g}")
    return ", ".join(features)


def _describe_feed_forward(spec: Dense | Experts) -> str:
    kind = spec.activation
    if spec.gated:
        kind = f"gated {kind}"
    if isinstance(spec, Dense):
        if spec.bias:
            return f"{kind} × {spec.d_ff}, bias"
        return f"{kind} × {spec.d_ff}"
    experts = f"{spec.n_active} of {spec.n_experts} experts"
    if spec.n_shared:
        experts += f" + {spec.n_shared} shared"
    return f"{experts}, {kind} × {spec.d_expert}"


def _mask_pictures(spec: ResolvedArchitecture, price: Price, page: Console) -> Columns:
    pictures: list[RenderableType] = []
    for name, stack in _named_stacks(spec):
        prefix_share = price.prefix / price.length if stack is spec.stack else 1
        for panel in mask_panels(stack, name, prefix_share):
            pictures.append(_draw_panel(panel, page))
    return Columns(pictures, padding=(1, 4, 0, 0))


def _draw_panel(panel: MaskPanel, page: Console) -> RenderableType:
    text = draw_mask(panel.squares, page.options.ascii_only)
    lines = [Text(panel.where), Text(str(panel.rule), style="bold"), Text(text, style="cyan")]
    if panel.note:
        lines.append(Text(panel.note, style="dim"))
    return Group(*lines)
