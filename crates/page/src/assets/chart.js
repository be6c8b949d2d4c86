// ---- what a line is in the columns of a screen ------------------------------------------------------------------

// The least and the greatest value in each column of pixels, and whether the line comes from the column before: a hole is never
// bridged. `grain` is how many columns a pixel has; without one, each value is a column of its own.
class Columns {
  constructor(grain) {
    Object.assign(this, { grain, x: [], min: [], max: [], joined: [], column: NaN, low: Infinity, high: -Infinity, leastPositive: Infinity });
  }

  // Columns come from left to right.
  add(x, min, max, joined) {
    const column = Math.floor(x * this.grain), last = this.x.length - 1;
    if (column === this.column) {
      if (min < this.min[last]) this.min[last] = min;
      if (max > this.max[last]) this.max[last] = max;
    } else {
      this.x.push(x);
      this.min.push(min);
      this.max.push(max);
      this.joined.push(joined);
      this.column = column;
    }
    if (min < this.low && Number.isFinite(min)) this.low = min;
    if (max > this.high && Number.isFinite(max)) this.high = max;
    if (min > 0 && min < this.leastPositive) this.leastPositive = min;
  }
}

// ---- the marks of an axis: where, and in which words ------------------------------------------------------------

// As many digits on each as its step needs, in a unit that is `factor` times the one of the values, counted from `origin`.
const linearMarks = (low, high, most, factor, origin = 0) => {
  const ticks = linearTicks((low - origin) * factor, (high - origin) * factor, most), step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const isPlain = digits <= 6 && Math.max(...ticks.map(Math.abs)) < 1e7 && ticks.length > 1;
  const words = (tick) => isPlain ? tick.toFixed(digits).replace("-", "−") : trimmed(+tick.toPrecision(10), 8);
  return ticks.map((tick) => ({ at: origin + tick / factor, words: words(tick) }));
};

// Of an axis that has the logarithms from `low` to `high`.
const logMarks = (low, high, unit) => {
  const first = Math.floor(low), last = Math.ceil(high), marks = [];
  const every = Math.max(1, Math.ceil((last - first) / 6));
  for (let d = first; d <= last; d += every)
    for (const m of last - first <= 2 ? [1, 2, 5] : [1]) {
      const v = d + Math.log10(m);
      if (v >= low - 1e-9 && v <= high + 1e-9) marks.push({ at: 10 ** v, words: spoken(10 ** v, unit, 3) });
    }
  return marks;
};

const percentile = (x) => {
  const p = 100 * (1 - 10 ** -x);
  return p.toFixed(Math.max(x > 0.35 && Math.abs(p - Math.round(p)) > 0.05 ? 1 : 0, Math.min(7, Math.ceil(x - 1e-6) - 2))) + " %";
};

// Of an axis that has −log10(1 − p).
const percentileMarks = (low, high, most) => {
  const wanted = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999].map((p) => -Math.log10(1 - p));
  const ticks = wanted.filter((x) => x >= low - 1e-9 && x <= high + 1e-9);
  return (ticks.length < 2 ? linearTicks(low, high, most) : ticks).map((at) => ({ at, words: percentile(at) }));
};

// ---- one chart --------------------------------------------------------------------------------------------------

// Around what is drawn, in pixels. A compact chart has no room for the names of its axes.
const MARGINS = { left: 62, right: 12, top: 22, bottom: 38 }, COMPACT = { left: 46, right: 8, top: 16, bottom: 20 };

// Which line is which.
const keyOf = ({ colour, stroke, name }, tag = "span", className = "") => {
  const key = element(tag, className);
  key.append(element("i", `c${colour} ${stroke}`), name);
  return key;
};

// Lines over a horizontal axis, which the pointer reads and zooms. The host has what is shown of that axis, and decides what becomes
// of it: `view()`; `show(from, to)`, `pan(by)`, `zoom(centre, factor)`, `back()`; and `hover(x, chart)`, null when the pointer left,
// kept as `pointed` and `pointing`.
//
// Who extends it knows the data: `columns(line)` of what is in view, the vertical range that suits them (`fit(paths)`, logarithms if
// `log`), and `heading(x)` and `reading(line, x)` in words. A line has a name, a colour from 0 to 7, and a stroke: "solid", "dashed"
// or "points". Marks have x, level and label, limits y and label.
class Chart {
  constructor(host, { title, y, lines, compact = false, description = title }) {
    Object.assign(this, { host, title, y, lines, compact, log: false, weight: 1.5, range: null, pen: null });
    this.margin = compact ? COMPACT : MARGINS;
    Object.assign(this, this.margin);
    this.area = element("div", "area");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", description);
    this.cursor = element("div", "cursor");
    this.selection = element("div", "selection");
    this.tip = element("div", "tip");
    this.area.append(this.canvas, this.cursor, this.selection, this.tip);
    this.listen();
  }

  // ---- what may be set

  get drawn() { return this.lines; }
  // Across the whole height; and at the foot, where there may be many.
  get marks() { return []; }
  get footMarks() { return []; }
  get limits() { return []; }
  // How the horizontal axis is written: its name, unit, factor of that unit, and from where it counts.
  get across() { return { label: "time", unit: "s", factor: 1, origin: 0 }; }
  xMarks(low, high, most) { return linearMarks(low, high, most, this.across.factor, this.across.origin); }
  drawLine(line, path) { this.stroke(line, path); }
  readings(x) { return this.drawn.map((line) => ({ line, name: line.name, words: this.reading(line, x) })); }

  // ---- places

  get view() { return this.host.view(); }

  get inner() { return Math.max(10, this.right - this.left); }

  toPixel(x) {
    const [low, high] = this.view;
    return this.left + (x - low) / (high - low) * this.inner;
  }

  pixelOf(event) { return event.clientX - this.canvas.getBoundingClientRect().left; }

  fromPixel(pixel) {
    const [low, high] = this.view;
    return low + (this.inside(pixel) - this.left) / this.inner * (high - low);
  }

  inside(pixel) { return Math.min(Math.max(pixel, this.left), this.left + this.inner); }

  toRow(y) {
    const [low, high] = this.range, span = high - low;
    const v = this.log ? (y > 0 ? Math.log10(y) : low) : y;
    return this.bottom - (Math.max(Math.min(v, high + span), low - span) - low) / span * (this.bottom - this.top);
  }

  // ---- what the reader does

  // A mouse selects what is to be shown; a finger moves it, two fingers zoom.
  listen() {
    const { canvas, host } = this, at = (event) => this.pixelOf(event);
    const held = new Map();
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held.set(event.pointerId, at(event));
      from = held.size === 1 && event.pointerType === "mouse" ? at(event) : null;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const pixel = at(event), before = held.get(event.pointerId);
      if (before !== undefined && event.pointerType !== "mouse") this.drag(before, pixel, [...held].find(([id]) => id !== event.pointerId)?.[1]);
      if (before !== undefined) held.set(event.pointerId, pixel);
      this.pixel = pixel;
      host.hover(this.fromPixel(pixel), this);
      if (from !== null) this.select(from, pixel);
    });
    const up = (event) => {
      held.delete(event.pointerId);
      if (from !== null && event.type === "pointerup" && Math.abs(at(event) - from) > 5)
        host.show(...[from, at(event)].map((pixel) => this.fromPixel(pixel)).sort((a, b) => a - b));
      from = null;
      this.selection.style.display = "none";
    };
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, up);
    for (const end of ["pointerleave", "blur"]) canvas.addEventListener(end, () => host.hover(null, this));
    canvas.addEventListener("dblclick", () => host.back());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  drag(before, pixel, other) {
    const [low, high] = this.view;
    if (other === undefined) this.host.pan((before - pixel) / this.inner * (high - low));
    else this.host.zoom(this.fromPixel((pixel + other) / 2), Math.abs(before - other) / Math.max(10, Math.abs(pixel - other)));
  }

  key(event) {
    const [low, high] = this.view, { host } = this;
    const zoom = (factor) => () => host.zoom((low + high) / 2, factor), pan = (part) => () => host.pan(part * (high - low)), back = () => host.back();
    const does = { "+": zoom(0.5), "=": zoom(0.5), "-": zoom(2), ArrowLeft: pan(-0.25), ArrowRight: pan(0.25), Escape: back, 0: back }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  select(from, to) {
    const [left, right] = [from, to].map((pixel) => this.inside(pixel)).sort((a, b) => a - b);
    this.stand(this.selection, left);
    this.selection.style.width = `${right - left}px`;
  }

  // Shows a part of the page over the whole height of the drawing.
  stand(part, left) {
    Object.assign(part.style, { display: "block", left: `${left}px`, top: `${this.top}px`, height: `${this.bottom - this.top}px` });
  }

  // ---- what the pointer reads

  point() {
    const { pointed, pointing } = this.host, [low, high] = this.view;
    const shows = this.pen !== null && pointed !== null && pointed >= low && pointed <= high;
    if (shows) this.stand(this.cursor, this.toPixel(pointed)); else this.cursor.style.display = "none";
    if (shows && pointing === this) this.showTip(pointed); else this.tip.style.display = "none";
  }

  showTip(x) {
    const { tip, area } = this, [low, high] = this.view, near = (high - low) * 5 / this.inner;
    const rows = this.readings(x).map(({ line, name, words }) => {
      const row = element("div");
      row.append(...line ? [element("i", `c${line.colour}`)] : [], name, element("em", "", words));
      return row;
    });
    const marks = [...this.marks, ...this.footMarks].filter((mark) => Math.abs(mark.x - x) < near).slice(0, 4);
    tip.replaceChildren(element("b", "", this.heading(x)), ...rows, ...marks.map(({ level, label }) => element("div", level, label)));
    Object.assign(tip.style, { display: "block", top: `${this.top + 4}px` });
    const pixel = this.toPixel(x), width = tip.offsetWidth;
    tip.style.left = `${pixel + 14 + width > area.clientWidth ? Math.max(0, pixel - width - 14) : pixel + 14}px`;
  }

  // ---- drawing

  // Whether there is room to draw.
  size() {
    const { width, height, pen } = sized(this.canvas) ?? {};
    if (!pen) return false;
    Object.assign(this, { pen, right: width - this.margin.right, bottom: height - this.margin.bottom });
    return this.right > this.left + 20 && this.bottom > this.top + 20;
  }

  draw() {
    if (!this.size()) return;
    const { pen, left, top } = this, paths = this.drawn.map((line) => this.columns(line));
    this.range = this.fit(paths);
    pen.font = `${this.compact ? 10.5 : 12}px ${inks.sans}`;
    this.drawAxes();
    pen.save();
    pen.beginPath();
    pen.rect(left, top - 2, this.inner, this.bottom - top + 3);
    pen.clip();
    this.drawInside(paths);
    const beyond = this.drawLimits();
    pen.restore();
    this.sayAbove(beyond);
    this.point();
  }

  drawInside(paths) {
    this.drawMarks();
    this.drawn.forEach((line, i) => this.drawLine(line, paths[i]));
  }

  text(words, x, y, align, baseline, ink = "muted") {
    Object.assign(this.pen, { fillStyle: inks[ink], textAlign: align, textBaseline: baseline });
    this.pen.fillText(words, x, y);
  }

  rule(x1, y1, x2, y2) {
    this.pen.beginPath();
    this.pen.moveTo(x1, y1);
    this.pen.lineTo(x2, y2);
    this.pen.stroke();
  }

  // The unit and its factor in which the values in view are best read.
  get readable() { return readable(this.y.unit, Math.max(...this.range.map(Math.abs))); }

  axisName() { return [this.compact ? "" : this.y.label, this.log ? "" : this.readable.unit].filter(Boolean).join(" / "); }

  yMarks() {
    const [low, high] = this.range, most = Math.max(2, Math.floor((this.bottom - this.top) / (this.compact ? 22 : 42)));
    if (this.log) return logMarks(low, high, this.y.unit);
    const marks = linearMarks(low, high, most, this.readable.factor);
    return marks.map(({ at, words }) => ({ at, words: this.y.names?.get(at)?.slice(0, 8) ?? words }));
  }

  drawAxes() {
    const { pen, left, right, top, bottom } = this;
    Object.assign(pen, { lineWidth: 1, strokeStyle: inks.grid });
    for (const { at, words } of this.yMarks()) {
      const row = Math.round(this.toRow(at)) + 0.5;
      this.rule(left, row, right, row);
      this.text(words, left - 7, row, "right", "middle");
    }
    this.text(this.axisName(), left, 1, "left", "top");
    this.drawXAxis();
    pen.strokeStyle = inks.axis;
    this.rule(left, Math.round(bottom) + 0.5, right, Math.round(bottom) + 0.5);
  }

  drawXAxis() {
    const { left, right, top, bottom, compact } = this, { label, unit } = this.across;
    let free = -Infinity;
    for (const { at, words } of this.xMarks(...this.view, Math.max(2, Math.floor(this.inner / 80)))) {
      const x = Math.round(this.toPixel(at)) + 0.5, number = compact ? `${words} ${unit}`.trim() : words;
      this.rule(x, top, x, bottom);
      const half = this.pen.measureText(number).width / 2, middle = Math.min(x, right + this.margin.right - 2 - half);
      if (middle - half < free) continue;
      free = middle + half + 8;
      this.text(number, middle, bottom + (compact ? 5 : 7), "center", "top");
    }
    if (!compact) this.text([label, unit].filter(Boolean).join(" / "), right, bottom + 36, "right", "bottom");
  }

  drawMarks() {
    const { pen, left, right, top, bottom } = this;
    pen.setLineDash([2, 3]);
    for (const { x, level } of this.marks) {
      const at = Math.round(this.toPixel(x)) + 0.5;
      if (at < left || at > right) continue;
      pen.strokeStyle = inks[level];
      this.rule(at, top, at, bottom);
    }
    pen.setLineDash([]);
    for (const { x, level } of this.footMarks) {
      const at = this.toPixel(x);
      pen.fillStyle = inks[level];
      if (at >= left && at <= right) pen.fillRect(at - 1, bottom - 4, 2, 5);
    }
  }

  // Returns those that are not in view.
  drawLimits() {
    const { pen } = this, placed = [];
    return this.limits.filter(({ y, label }) => {
      const row = Math.round(this.toRow(y)) + 0.5;
      if (row < this.top || row > this.bottom) return true;
      Object.assign(pen, { strokeStyle: inks.bad, lineWidth: 1 });
      pen.setLineDash([6, 4]);
      this.rule(this.left, row, this.right, row);
      pen.setLineDash([]);
      if (!this.compact) this.limitLabel(label, row, placed);
      return false;
    });
  }

  // Above its line or below it, to the left of labels that are there.
  limitLabel(label, row, placed) {
    const above = row - this.top > 16, top = above ? row - 17 : row + 3;
    const beside = placed.filter((other) => Math.abs(other.top - top) < 15).map((other) => other.left);
    const right = Math.min(this.right - 4, ...beside.map((left) => left - 10));
    placed.push({ top, left: right - this.pen.measureText(label).width });
    this.text(label, right, top + (above ? 14 : 1), "right", above ? "bottom" : "top", "bad");
  }

  // Above the drawing, where no line is: the limits that are not in view.
  sayAbove(limits) {
    if (!limits.length) return;
    const values = limits.map(({ y }) => spoken(y, this.y.unit, 3));
    this.sayFitting([
      `not in view: ${limits.map(({ label }, at) => `${label} ${values[at]}`).join(", ")}`,
      `limits not in view: ${values.join(", ")}`,
      "limits not in view",
    ]);
  }

  // The first of these words for which there is room beside the axis's name.
  sayFitting(words, ink) {
    const room = this.inner - this.pen.measureText(this.axisName()).width - 12;
    const fitting = words.find((text) => this.pen.measureText(text).width <= room);
    if (fitting) this.text(fitting, this.right - 4, 1, "right", "top", ink);
  }

  stroke(line, path) {
    const { min, max, joined, grain } = path, { pen } = this, count = min.length;
    const apart = count > 1 ? (path.x[count - 1] - path.x[0]) / (count - 1) : Infinity, few = apart > 12, dense = apart < 1.2;
    // In the middle of a pixel a column is sharp.
    const x = dense ? path.x.map((x) => (Math.floor(x * grain) + 0.5) / grain) : path.x;
    pen.strokeStyle = pen.fillStyle = inks[`c${line.colour}`];
    if (line.stroke === "points") return this.dots(path, () => true);
    // Lines of one pixel are drawn many times faster than wider ones where no graphics processor helps, and show the shape.
    pen.lineWidth = dense ? 1 : this.weight;
    pen.lineJoin = dense ? "bevel" : "round";
    const dashed = line.stroke === "dashed";
    pen.setLineDash(dashed && !dense ? [6, 4] : []);
    pen.beginPath();
    let start = 0, end = 0, drawn = false;
    for (let i = 0; i < count; i++) {
      let a = this.toRow(min[i]), b = this.toRow(max[i]);
      const away = (row) => Math.abs(2 * row - a - b);
      // Every other piece is left out where nothing happens: a pattern of dashes costs too much with so many corners.
      const shown = !dashed || !dense || x[i] % 7 < 4 || Math.abs(a - end) + Math.abs(b - a) > 4;
      // From end to end where they are nearest: a spike goes up and down in its own column.
      if (joined[i] && away(start) < away(end)) {
        if (shown && drawn) pen.lineTo(x[i - 1], start);
        end = start;
      }
      if (joined[i] && Math.abs(b - end) < Math.abs(a - end)) [a, b] = [b, a];
      if (shown) {
        if (joined[i] && drawn) pen.lineTo(x[i], a); else pen.moveTo(x[i], a);
        if (a !== b) pen.lineTo(x[i], b);
      }
      drawn = shown;
      [start, end] = [a, b];
    }
    pen.stroke();
    pen.setLineDash([]);
    // A lone value is a line of no length, which would not show.
    this.dots(path, (i) => min[i] === max[i] && (few || !joined[i] && !joined[i + 1]));
  }

  dots({ x, min, max }, wanted) {
    const { pen } = this;
    pen.beginPath();
    for (let i = 0; i < x.length; i++) {
      if (!wanted(i)) continue;
      const row = this.toRow(max[i]);
      pen.moveTo(x[i] + 2, row);
      pen.arc(x[i], row, 2, 0, 7);
    }
    pen.fill();
  }
}
