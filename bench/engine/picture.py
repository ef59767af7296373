"""A bar chart of ratios as SVG: how many times the median of Meshwork each competitor took."""
import html
import math

COLOURS = {"jax": "#4c78a8", "jax huge": "#72b7b2", "c": "#e45756", "torch": "#f58518", "numpy": "#b279a2"}


def picture(rows):
    rows = [r for r in rows if r.get("ratio")]
    names = [n for n in COLOURS if any(n in r["ratio"] for r in rows)]
    bar, gap, left, width = 9, 10, 250, 520
    top = max((v for r in rows for n, v in r["ratio"].items() if n in COLOURS), default=2)
    low, high = -1, max(1, math.ceil(math.log2(max(top, 1.01))))
    place = lambda ratio: left + (max(low, math.log2(ratio)) - low) / (high - low) * width
    out, y = [], 46
    for i, name in enumerate(names):
        out.append(f'<rect x="{left + 110 * i}" y="12" width="10" height="10" fill="{COLOURS[name]}"/>'
                   f'<text x="{left + 110 * i + 14}" y="21">{name}</text>')
    for row in rows:
        label = html.escape(f"{row['problem']}, {row['variant']}, {row['mesh']}")
        shown = [n for n in names if n in row["ratio"]]
        middle = y + len(shown) * bar / 2 + 4
        out.append(f'<text x="{left - 8}" y="{middle}" text-anchor="end">{label}</text>')
        for name in shown:
            end, start = place(row["ratio"][name]), place(1)
            out.append(f'<rect x="{min(start, end):.1f}" y="{y}" width="{abs(end - start):.1f}" height="{bar - 1}" '
                       f'fill="{COLOURS[name]}"/><text x="{max(start, end) + 4:.1f}" y="{y + bar - 2}" '
                       f'font-size="8">{row["ratio"][name]:.2f}</text>')
            y += bar
        y += gap
    grid = "".join(f'<line x1="{place(2 ** k):.1f}" x2="{place(2 ** k):.1f}" y1="32" y2="{y}" stroke="{"#333" if k == 0 else "#ddd"}"/>'
                   f'<text x="{place(2 ** k):.1f}" y="{y + 14}" text-anchor="middle">{2.0 ** k:g}x</text>'
                   for k in range(low, high + 1))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{y + 40}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>{grid}{"".join(out)}'
            f'<text x="{left}" y="{y + 32}">time of each competitor as a multiple of Meshwork\'s (longer is slower)</text></svg>\n')
