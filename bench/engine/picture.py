"""A bar chart of ratios as SVG: how many times the median of Meshwork each competitor took, on a logarithmic scale."""
import html
import itertools
import math

COLOURS = {"jax": "#4c78a8", "jax huge": "#72b7b2", "c": "#e45756", "torch": "#f58518", "numpy": "#b279a2",
           "mpi4py": "#9d755d"}
BAR, GAP, LEFT, WIDTH, TOP = 9, 7, 190, 560, 52


LONGEST_BAR = 6  # as a power of two


def distribution(rows):
    """(ratio, row) pairs as one sorted bar each, those below 1 to the left of the line, the longest cut off."""
    rows = sorted(((ratio, row) for ratio, row in rows if ratio), key=lambda x: x[0])
    low = min([-1.0, *(math.log2(ratio) for ratio, _ in rows)])
    high = min(LONGEST_BAR, max([1.0, *(math.log2(ratio) for ratio, _ in rows)]))
    # A page is as tall as some hundreds of bars: more of them are thinner.
    left, width, step, top = 16, 720, min(3, 1000 / max(1, len(rows))), 40
    place = lambda power: left + (power - low) / (high - low) * width
    bottom = top + step * len(rows)
    out = []
    for k in range(math.ceil(low), math.floor(high) + 1):
        x = place(k)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}" stroke="{"#333" if k == 0 else "#ddd"}"/>'
                   f'<text x="{x:.1f}" y="{top - 10}" text-anchor="middle">{2.0 ** k:.3g}x</text>')
    for i, (ratio, row) in enumerate(rows):
        x = sorted((place(0), place(min(high, math.log2(ratio)))))
        name = html.escape(f"{row['problem']}: {row['variant']}, {row['mesh']}: {ratio:.2f}")
        colour = "#4c78a8" if row["mesh"] == "1" else "#f58518"
        out.append(f'<rect x="{x[0]:.1f}" y="{top + step * i:.2f}" width="{max(0.5, x[1] - x[0]):.1f}" height="{step * 0.8:.2f}" '
                   f'fill="{colour}"><title>{name}</title></rect>')
    below = sum(ratio < 1 for ratio, _ in rows)
    mean = 2 ** (sum(math.log2(ratio) for ratio, _ in rows) / max(1, len(rows)))
    text = f"JAX's time / Meshwork's, {len(rows)} rows: geometric mean {mean:.2f}, {below} below 1; blue 1 device, orange 8"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left * 2 + width}" height="{bottom + 16:.0f}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
            f'<text x="{left}" y="14">{text}</text>{"".join(out)}</svg>\n')


def picture(rows):
    rows = [r for r in rows if r.get("ratio")]
    names = [n for n in COLOURS if any(n in r["ratio"] for r in rows)]
    ratios = [v for r in rows for n, v in r["ratio"].items() if n in COLOURS] or [1]
    low = min(-1, math.floor(math.log2(min(ratios))))
    high = max(1, math.ceil(math.log2(max(ratios) * 1.01)))
    place = lambda ratio: LEFT + (math.log2(ratio) - low) / (high - low) * WIDTH
    out, y = [], TOP
    for problem, group in itertools.groupby(rows, key=lambda r: r["problem"]):
        y += 6
        out.append(f'<text x="{LEFT - 8}" y="{y + 10}" text-anchor="end" font-weight="bold">{html.escape(problem)}</text>')
        y += 18
        for number, row in enumerate(group):
            shown = [n for n in names if n in row["ratio"]]
            height = len(shown) * BAR + GAP
            if number % 2 == 0:
                out.append(f'<rect x="0" y="{y - GAP / 2}" width="100%" height="{height}" fill="#000" fill-opacity="0.03"/>')
            label = html.escape(f"{row['variant']}, {row['mesh']}")
            out.append(f'<text x="{LEFT - 8}" y="{y + len(shown) * BAR / 2 + 4}" text-anchor="end">{label}</text>')
            for name in shown:
                end, start = place(row["ratio"][name]), place(1)
                out.append(f'<rect x="{min(start, end):.1f}" y="{y}" width="{abs(end - start):.1f}" height="{BAR - 1}" '
                           f'fill="{COLOURS[name]}"/><text x="{max(start, end) + 4:.1f}" y="{y + BAR - 2}" '
                           f'font-size="8.5">{row["ratio"][name]:.3g}</text>')
                y += BAR
            y += GAP
    legend = "".join(f'<rect x="{LEFT + 90 * i}" y="8" width="10" height="10" fill="{COLOURS[name]}"/>'
                     f'<text x="{LEFT + 90 * i + 14}" y="17">{name}</text>' for i, name in enumerate(names))
    ticks = [(place(2 ** k), f"{2.0 ** k:.3g}x", k == 0) for k in range(low, high + 1)]
    grid = "".join(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{y}" stroke="{"#333" if one else "#ddd"}"/>'
                   f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{text}</text>'
                   f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{text}</text>' for x, text, one in ticks)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{y + 40}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>{grid}{legend}{"".join(out)}'
            f'<text x="{LEFT}" y="{y + 32}">time of each competitor as a multiple of Meshwork\'s (longer is slower)</text></svg>\n')
