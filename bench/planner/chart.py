"""Line charts as SVG, readable in print: every line has its own dash pattern, and its name at its end."""
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2", "12 3 3 3")
COLOURS = ("#1f4e9c", "#b3261e", "#2e7d32", "#6a1b9a", "#c77700", "#00796b", "#5d4037", "#37474f")


def ticks(low, high):
    step = 1
    while (high - low) / step > 8:
        step *= 2
    while (high - low) / step < 4:
        step /= 2
    value, found = low // step * step, []
    while value <= high + step / 2:
        found.append(value)
        value += step
    return found


def apart(places, least):
    """Label heights, moved so that neighbors are `least` apart."""
    order = sorted(places, key=lambda name: places[name])
    last = None
    for name in order:
        if last is not None and places[name] < last + least:
            places[name] = last + least
        last = places[name]
    return places


def lines_chart(path, title, across, up, xs, series):
    width, height, left, right, top, bottom = 640, 400, 56, 110, 36, 48
    marks = ticks(min(min(ys) for ys in series.values()), max(max(ys) for ys in series.values()))

    def x_of(x):
        return left + (width - left - right) * (x - xs[0]) / (xs[-1] - xs[0])

    def y_of(y):
        return height - bottom - (height - top - bottom) * (y - marks[0]) / (marks[-1] - marks[0])
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for mark in marks:
        out.append(f'<path d="M{left} {y_of(mark):.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y_of(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for x in xs:
        out.append(f'<text x="{x_of(x):.1f}" y="{height - bottom + 18}" text-anchor="middle">{x:g}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">{across}</text>')
    out.append(f'<text transform="translate(14 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">{up}</text>')
    places = apart({name: y_of(ys[-1]) for name, ys in series.items()}, 13)
    for i, (name, ys) in enumerate(series.items()):
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in zip(xs, ys))
        colour = COLOURS[i % len(COLOURS)]
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8" '
                   f'stroke-dasharray="{DASHES[i % len(DASHES)]}"/>')
        out.append(f'<text x="{width - right + 6}" y="{places[name] + 4:.1f}" fill="{colour}">{name}</text>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n</svg>\n")
