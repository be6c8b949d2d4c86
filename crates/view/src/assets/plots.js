// ---- history: what the page has of it -------------------------------------------------------------------------

// Buckets a signal keeps at one level.
const KEPT = 8192;
// Levels kept beside the one shown, to draw something while another is on its way.
const LEVELS_KEPT = 4;

// One signal at one level: a ring of buckets, of which those from `from` to before `to` are known. Those from `to` to before
// `seen` may still change.
class Line {
  constructor() {
    this.min = new Float32Array(KEPT).fill(NaN);
    this.max = new Float32Array(KEPT).fill(NaN);
    this.from = this.to = this.seen = 0;
  }

  // What is missing of a span, as first bucket and number of buckets; null if nothing is.
  missing(from, to) {
    if (from >= this.from && to <= this.to) return null;
    if (this.to > this.from && from >= this.from && from <= this.to) return [this.to, to - this.to];
    if (this.to > this.from && to <= this.to && to >= this.from) return [from, this.from - from];
    return [from, to - from];
  }

  put(from, min, max, final) {
    const to = from + min.length;
    for (let i = 0; i < min.length; i++) {
      const place = (from + i) % KEPT;
      this.min[place] = min[i];
      this.max[place] = max[i];
    }
    const touches = this.to > this.from && from <= this.to && to >= this.from;
    const known = Math.min(to, Math.max(final, from));
    if (!touches) [this.from, this.to, this.seen] = [from, known, to];
    else if (from < this.from) { if (known >= this.from) this.from = from; else [this.from, this.to, this.seen] = [from, known, to]; }
    else { this.to = Math.max(this.to, known); this.seen = Math.max(this.seen, to); }
    // A ring has room for so many.
    if (this.seen - this.from > KEPT) {
      if (from <= this.from) { this.seen = this.from + KEPT; this.to = Math.min(this.to, this.seen); }
      else this.from = this.seen - KEPT;
    }
  }
}

class History {
  constructor() { this.levels = new Map(); }

  at(level) {
    let lines = this.levels.get(level);
    // The level used last is the last in the map.
    if (lines) this.levels.delete(level);
    else lines = new Map();
    this.levels.set(level, lines);
    while (this.levels.size > LEVELS_KEPT) this.levels.delete(this.levels.keys().next().value);
    return lines;
  }

  line(level, signal) {
    const lines = this.at(level);
    if (!lines.has(signal)) lines.set(signal, new Line());
    return lines.get(signal);
  }

  // The best there is for a stretch of time: this level, or another that has some of it.
  best(level, signal, fromUs, toUs) {
    const has = (at) => {
      const line = this.levels.get(at)?.get(signal), size = 2 ** at;
      return line && line.seen * size > fromUs && line.from * size < toUs && line.seen > line.from ? line : null;
    };
    if (has(level)) return [level, has(level)];
    const others = [...this.levels.keys()].filter(has).sort((a, b) => Math.abs(a - level) - Math.abs(b - level));
    return others.length ? [others[0], has(others[0])] : null;
  }

  // The newest value that is not after a time.
  valueAt(signal, timeUs, level) {
    const found = this.best(level, signal, timeUs - 5e5, timeUs + 1);
    if (!found) return NaN;
    const [at, line] = found, size = 2 ** at;
    for (let i = Math.min(Math.floor(timeUs / size), line.seen - 1), last = Math.max(line.from, i - 300); i >= last; i--) {
      const value = (line.min[i % KEPT] + line.max[i % KEPT]) / 2;
      if (!Number.isNaN(value)) return value;
    }
    return NaN;
  }
}

// The level at which a span has at least so many buckets, and less than twice as many.
const levelOf = (spanUs, buckets) => Math.max(0, Math.floor(Math.log2(Math.max(spanUs, 1) / buckets)));

// ---- colours --------------------------------------------------------------------------------------------------

let inks = {};
const readInks = () => {
  const style = getComputedStyle(document.documentElement);
  inks = {};
  for (const name of ["ink", "muted", "faint", "grid", "axis", "line", "card", "paper", "good", "note", "warning", "bad", "sans", ..."01234567".split("").map((n) => `c${n}`)])
    inks[name] = style.getPropertyValue(`--${name}`).trim();
};

// ---- one plot -------------------------------------------------------------------------------------------------

const LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 18;

// Which line is which.
const keysOf = (lines) => lines.map((line) => {
  const key = element("span");
  key.append(element("i", `c${line.colour}${line.dashed ? " dashed" : ""}`), line.name);
  return key;
});

// Signals over time. `host` has the time shown, the history, and what the reader does with the time.
class LivePlot {
  constructor(host, { title, unit, lines, zero = false, names = null, keyed = true, onClose = null }) {
    Object.assign(this, { host, title, unit, lines, zero, names, range: null, visible: false });
    this.figure = element("figure");
    const caption = element("figcaption");
    caption.append(element("b", "", title));
    if (keyed) caption.append(...keysOf(lines));
    if (onClose) {
      const close = element("button", "", "remove");
      close.type = "button";
      close.addEventListener("click", onClose);
      caption.append(close);
    }
    this.area = element("div", "area");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${title}: ${lines.map((line) => line.name).join(", ")}`);
    this.cursor = element("div", "cursor");
    this.selection = element("div", "selection");
    this.tip = element("div", "tip");
    this.area.append(this.canvas, this.cursor, this.selection, this.tip);
    this.figure.append(caption, this.area);
    this.listen();
  }

  get inner() { return Math.max(10, sizeOf(this.canvas).width - LEFT - RIGHT); }

  toPixel(us) {
    const [from, to] = this.host.view();
    return LEFT + (us - from) / (to - from) * this.inner;
  }

  fromPixel(pixel) {
    const [from, to] = this.host.view();
    return from + (pixel - LEFT) / this.inner * (to - from);
  }

  // ---- what the reader does

  listen() {
    const canvas = this.canvas, at = (event) => event.clientX - canvas.getBoundingClientRect().left;
    const touches = new Map();
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      touches.set(event.pointerId, at(event));
      from = touches.size === 1 ? at(event) : null;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const pixel = at(event);
      this.host.hover(this.fromPixel(Math.min(Math.max(pixel, LEFT), LEFT + this.inner)), this);
      const before = touches.get(event.pointerId);
      if (before === undefined) return;
      if (event.pointerType === "mouse") return this.select(from, pixel);
      const others = [...touches].filter(([id]) => id !== event.pointerId);
      const span = this.host.view()[1] - this.host.view()[0];
      if (!others.length) this.host.pan((before - pixel) / this.inner * span);
      else {
        const other = others[0][1], grown = Math.abs(before - other) / Math.max(10, Math.abs(pixel - other));
        this.host.zoom(this.fromPixel((pixel + other) / 2), grown);
      }
      touches.set(event.pointerId, pixel);
    });
    const up = (event) => {
      const was = touches.delete(event.pointerId);
      if (was && from !== null && event.pointerType === "mouse" && event.type === "pointerup") {
        const ends = [from, at(event)].sort((a, b) => a - b);
        if (ends[1] - ends[0] > 5) this.host.show(...ends.map((pixel) => this.fromPixel(Math.min(Math.max(pixel, LEFT), LEFT + this.inner))));
      }
      from = null;
      this.selection.style.display = "none";
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.host.hover(null, this));
    canvas.addEventListener("blur", () => this.host.hover(null, this));
    canvas.addEventListener("dblclick", () => this.host.back());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const span = this.host.view()[1] - this.host.view()[0];
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) this.host.pan((event.deltaX || event.deltaY) / this.inner * span);
      else this.host.zoom(this.fromPixel(at(event)), 1.0015 ** Math.max(-400, Math.min(400, event.deltaY)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [from, to] = this.host.view(), span = to - from;
    const does = {
      "+": () => this.host.zoom((from + to) / 2, 0.5),
      "=": () => this.host.zoom((from + to) / 2, 0.5),
      "-": () => this.host.zoom((from + to) / 2, 2),
      ArrowLeft: () => this.host.pan(-span / 4),
      ArrowRight: () => this.host.pan(span / 4),
      0: () => this.host.back(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  select(from, to) {
    if (from === null) return;
    const [left, right] = [from, to].map((pixel) => Math.min(Math.max(pixel, LEFT), LEFT + this.inner)).sort((a, b) => a - b);
    Object.assign(this.selection.style, { display: "block", left: `${left}px`, width: `${right - left}px` });
  }

  // ---- drawing

  draw() {
    const canvas = sized(this.canvas);
    if (!canvas) return;
    const { pen, width, height } = canvas;
    this.bottom = height - BOTTOM;
    const [from, to] = this.host.view();
    const paths = this.lines.map((line) => this.columns(line, from, to));
    this.fit(paths);
    pen.font = `10.5px ${inks.sans}`;
    this.axes(pen, width, from, to);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT - RIGHT, this.bottom + 1);
    pen.clip();
    this.marks(pen, from, to);
    this.lines.forEach((line, i) => this.stroke(pen, line, paths[i]));
    pen.restore();
    this.point();
  }

  // Minimum and maximum of a line in each column of pixels: x, min, max, and whether the one before is its neighbour.
  columns(line, from, to) {
    const found = this.host.history.best(this.host.level(), line.signal, from, to);
    const columns = { x: [], min: [], max: [], joined: [], low: Infinity, high: -Infinity };
    if (!found) return columns;
    const [level, data] = found, size = 2 ** level, ratio = window.devicePixelRatio || 1;
    const first = Math.max(data.from, Math.floor(from / size) - 1), last = Math.min(data.seen, Math.ceil(to / size) + 1);
    const scale = this.inner / (to - from);
    let filled = 0, start = -1, end = -1;
    for (let i = first; i < last; i++) if (data.min[i % KEPT] <= data.max[i % KEPT]) { filled++; if (start < 0) start = i; end = i; }
    // Further apart than this the values are no neighbours: something is missing between them.
    const gap = filled > 1 ? Math.max(2, 4 * (end - start) / (filled - 1)) : 2;
    let column = -1, before = -Infinity;
    for (let i = Math.max(start, first); i <= end; i++) {
      const min = data.min[i % KEPT], max = data.max[i % KEPT];
      if (!(min <= max)) continue;
      const x = LEFT + ((i + 0.5) * size - from) * scale, here = Math.round(x * ratio);
      const last = columns.x.length - 1;
      if (here === column) {
        if (min < columns.min[last]) columns.min[last] = min;
        if (max > columns.max[last]) columns.max[last] = max;
      } else {
        columns.x.push(x);
        columns.min.push(min);
        columns.max.push(max);
        columns.joined.push(i - before <= gap);
        column = here;
      }
      before = i;
      if (Number.isFinite(min) && min < columns.low) columns.low = min;
      if (Number.isFinite(max) && max > columns.high) columns.high = max;
    }
    return columns;
  }

  // The vertical range: as wide as what is in view, and not narrower at once when that gets less.
  fit(paths) {
    let low = Math.min(...paths.map((path) => path.low)), high = Math.max(...paths.map((path) => path.high));
    if (!(low <= high)) { this.range = this.range || [0, 1]; return; }
    if (this.zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const room = (high - low) * 0.07 || Math.abs(high) * 0.1 || 0.5;
    const wanted = [this.zero && low === 0 ? 0 : low - room, high + room];
    const has = this.range;
    const fits = has && has[0] <= low && has[1] >= high && (high - low) > (has[1] - has[0]) * 0.55;
    if (!fits) this.range = wanted;
  }

  toRow(y) {
    const [low, high] = this.range;
    return Math.max(-50, Math.min(this.bottom + 50, this.bottom - (y - low) / (high - low) * (this.bottom - TOP)));
  }

  axes(pen, width, from, to) {
    const [low, high] = this.range, unit = readable(this.unit, Math.max(Math.abs(low), Math.abs(high)));
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const tick of linearTicks(low * unit.factor, high * unit.factor, 5)) {
      const row = Math.round(this.toRow(tick / unit.factor)) + 0.5;
      pen.strokeStyle = inks.grid;
      pen.beginPath();
      pen.moveTo(LEFT, row);
      pen.lineTo(width - RIGHT, row);
      pen.stroke();
      pen.fillStyle = inks.muted;
      const name = this.names?.get(tick / unit.factor);
      pen.fillText((name ?? trimmed(+tick.toPrecision(8), 4)).slice(0, 8), LEFT - 5, row);
    }
    if (unit.unit) {
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillText(unit.unit, LEFT + 4, 1);
    }
    this.timeAxis(pen, width, from, to);
  }

  timeAxis(pen, width, from, to) {
    const origin = this.host.origin(), s = (us) => (us - origin) / 1e6;
    const ticks = linearTicks(s(from), s(to), Math.max(2, this.inner / 75));
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1, digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
    pen.textBaseline = "bottom";
    pen.textAlign = "center";
    for (const tick of ticks) {
      const x = Math.round(this.toPixel(origin + tick * 1e6)) + 0.5;
      pen.strokeStyle = inks.grid;
      pen.beginPath();
      pen.moveTo(x, TOP);
      pen.lineTo(x, this.bottom + 3);
      pen.stroke();
      const text = `${tick.toFixed(digits).replace("-", "−")} s`, half = pen.measureText(text).width / 2;
      if (x - half > LEFT - 20 && x + half < width) { pen.fillStyle = inks.muted; pen.fillText(text, x, this.bottom + BOTTOM); }
    }
  }

  // Late ticks below, changes of phase and of parameters as lines.
  marks(pen, from, to) {
    for (const { at_us: us, level } of this.host.marks) {
      if (us < from || us > to) continue;
      const x = Math.round(this.toPixel(us)) + 0.5;
      pen.strokeStyle = inks[level];
      pen.setLineDash([2, 3]);
      pen.beginPath();
      pen.moveTo(x, TOP);
      pen.lineTo(x, this.bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.fillStyle = inks.bad;
    for (const { at_us: us } of this.host.late)
      if (us >= from && us <= to) pen.fillRect(this.toPixel(us) - 1, this.bottom - 4, 2, 5);
  }

  stroke(pen, line, { x, min, max, joined }) {
    const few = x.length < this.inner / 12;
    pen.strokeStyle = pen.fillStyle = inks[`c${line.colour}`];
    // Lines of one pixel are drawn many times faster than wider ones where no graphics processor helps.
    pen.lineWidth = few ? 1.5 : 1;
    pen.lineJoin = "bevel";
    pen.beginPath();
    let y = 0, drawn = false;
    for (let i = 0; i < x.length; i++) {
      let a = this.toRow(min[i]), b = this.toRow(max[i]);
      // Every other piece is left out where nothing happens: a pattern of dashes costs too much with so many corners.
      const shown = !line.dashed || few || x[i] % 7 < 4 || Math.abs(a - y) + Math.abs(b - a) > 4;
      // The nearer end first, so that the line between two columns is short.
      const near = Math.abs(b - y) < Math.abs(a - y);
      if (joined[i] && near) { const swapped = a; a = b; b = swapped; }
      if (shown) {
        if (joined[i] && drawn) pen.lineTo(x[i], a); else pen.moveTo(x[i], a);
        // A lone value is a line of no length, which would not show.
        if (a !== b) pen.lineTo(x[i], b); else if (!joined[i]) pen.lineTo(x[i], b + 1);
      }
      drawn = shown;
      y = b;
    }
    pen.stroke();
    if (few) for (let i = 0; i < x.length; i++) if (min[i] === max[i]) pen.fillRect(x[i] - 1.5, this.toRow(min[i]) - 1.5, 3, 3);
  }

  // ---- the cursor

  point() {
    const us = this.host.pointed;
    const [from, to] = this.host.view();
    const shows = us !== null && us >= from && us <= to;
    this.cursor.style.display = shows ? "block" : "none";
    const speaks = shows && this.host.pointing === this;
    this.tip.style.display = speaks ? "block" : "none";
    if (!shows) return;
    const pixel = this.toPixel(us);
    this.cursor.style.left = `${pixel}px`;
    if (speaks) this.say(us, pixel);
  }

  say(us, pixel) {
    const rows = this.lines.map((line) => {
      const row = element("div");
      row.append(element("i", `c${line.colour}`), line.name, element("em", "", this.valueText(line, us)));
      return row;
    });
    const near = (this.host.view()[1] - this.host.view()[0]) * 5 / this.inner;
    const marks = [...this.host.marks, ...this.host.late].filter((mark) => Math.abs(mark.at_us - us) < near).slice(0, 4);
    this.tip.replaceChildren(element("b", "", this.host.clock(us)), ...rows, ...marks.map((mark) => element("div", mark.level, mark.label)));
    const width = this.tip.offsetWidth, room = this.area.clientWidth;
    this.tip.style.left = `${pixel + 12 + width > room ? Math.max(0, pixel - width - 12) : pixel + 12}px`;
  }

  valueText(line, us) {
    const found = this.host.history.best(this.host.level(), line.signal, us - 1e6, us + 1e6);
    if (!found) return "–";
    const [level, data] = found, at = Math.floor(us / 2 ** level);
    // The nearest bucket with a value, within the width of a finger.
    const reach = Math.ceil((this.host.view()[1] - this.host.view()[0]) * 12 / this.inner / 2 ** level);
    for (let off = 0; off <= reach; off++)
      for (const i of [at - off, at + off]) {
        if (i < data.from || i >= data.seen) continue;
        const min = data.min[i % KEPT], max = data.max[i % KEPT];
        if (min <= max) return this.between(min, max);
      }
    return "–";
  }

  between(min, max) {
    if (this.names) return [...new Set([min, max])].map((value) => this.names.get(value) ?? String(value)).join(" … ");
    return min === max ? spoken(min, this.unit) : `${spoken(min, this.unit)} … ${spoken(max, this.unit)}`;
  }
}

// ---- the whole time --------------------------------------------------------------------------------------------

// One line of everything, with the part that the plots show; it is dragged, and keys move it.
class Overview {
  constructor(host, canvas) {
    Object.assign(this, { host, canvas, signal: null });
    const us = (event) => {
      const box = canvas.getBoundingClientRect(), [first, last] = host.extent();
      return first + (event.clientX - box.left) / box.width * (last - first);
    };
    let grabbed = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [from, to] = host.view(), at = us(event);
      grabbed = at >= from && at <= to ? at - from : (to - from) / 2;
      canvas.setPointerCapture(event.pointerId);
      host.moveTo(at - grabbed);
    });
    canvas.addEventListener("pointermove", (event) => { if (grabbed !== null) host.moveTo(us(event) - grabbed); });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { grabbed = null; });
    canvas.addEventListener("keydown", (event) => {
      const [from, to] = host.view(), step = { ArrowLeft: -0.25, ArrowRight: 0.25, PageUp: -1, PageDown: 1 }[event.key];
      if (step === undefined && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      host.moveTo(event.key === "Home" ? host.extent()[0] : event.key === "End" ? host.extent()[1] : from + step * (to - from));
    });
  }

  get level() {
    const [first, last] = this.host.extent();
    return levelOf(last - first, 800);
  }

  draw() {
    const canvas = sized(this.canvas);
    if (!canvas) return;
    const { pen, width, height } = canvas, [first, last] = this.host.extent(), [from, to] = this.host.view();
    const x = (us) => (us - first) / Math.max(1, last - first) * width;
    const found = this.signal === null ? null : this.host.history.best(this.level, this.signal, first, last);
    if (found) this.curve(pen, found, x, height, first, last);
    pen.globalAlpha = 0.16;
    pen.fillStyle = inks.note;
    pen.fillRect(x(from), 0, Math.max(2, x(to) - x(from)), height);
    pen.globalAlpha = 1;
    pen.strokeStyle = inks.note;
    pen.lineWidth = 1.5;
    pen.strokeRect(x(from), 0.75, Math.max(2, x(to) - x(from)), height - 1.5);
    for (const mark of this.host.marks) { pen.fillStyle = inks[mark.level]; pen.fillRect(x(mark.at_us), 0, 1.5, height); }
    pen.fillStyle = inks.bad;
    for (const { at_us: us } of this.host.late) pen.fillRect(x(us) - 1, height - 7, 2, 7);
    const share = (us) => Math.round(100 * (us - first) / Math.max(1, last - first));
    this.canvas.setAttribute("aria-valuenow", String(share(from)));
    this.canvas.setAttribute("aria-valuetext", `from ${this.host.clock(from)} to ${this.host.clock(to)}`);
  }

  curve(pen, [level, data], x, height, first, last) {
    const size = 2 ** level, from = Math.max(data.from, Math.floor(first / size)), to = Math.min(data.seen, Math.ceil(last / size) + 1);
    let low = Infinity, high = -Infinity;
    for (let i = from; i < to; i++) { const v = data.max[i % KEPT], w = data.min[i % KEPT]; if (v > high) high = v; if (w < low) low = w; }
    const row = (v) => height - 3 - (v - low) / (high - low || 1) * (height - 8);
    pen.strokeStyle = inks.faint;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let i = from; i < to; i++) {
      const v = data.max[i % KEPT], w = data.min[i % KEPT];
      if (!(w <= v)) continue;
      const at = x((i + 0.5) * size);
      pen.moveTo(at, row(w) + 0.5);
      pen.lineTo(at, row(v) - 0.5);
    }
    pen.stroke();
  }
}

// ---- attitude --------------------------------------------------------------------------------------------------

// The faces of a body: x forward, y left, z up. Its front is marked.
const BODY = [1, 0.55, 0.22];
const FACES = [[0, 1, "c1"], [0, -1, "c0"], [1, 1, "c0"], [1, -1, "c0"], [2, 1, "c5"], [2, -1, "c6"]];

// As seen from behind, from the right and from above: right and up on the screen, and towards the eye.
const seen = ([x, y, z]) => {
  const a = -0.6, e = 0.42;
  const [forward, left] = [x * Math.cos(a) - y * Math.sin(a), x * Math.sin(a) + y * Math.cos(a)];
  return [-left, z * Math.cos(e) + forward * Math.sin(e), z * Math.sin(e) - forward * Math.cos(e)];
};

const drawAttitude = (canvas, quaternion) => {
  const found = sized(canvas);
  if (!found) return;
  const { pen, width, height } = found, scale = Math.min(width, height * 1.5) * 0.26;
  const place = (point) => { const [x, y, near] = seen(point); return [width / 2 + x * scale, height * 0.46 - y * scale, near]; };
  pen.strokeStyle = inks.line;
  pen.beginPath();
  for (let i = -2; i <= 2; i++)
    for (const [a, b] of [[[i * 0.7, -1.4, -0.5], [i * 0.7, 1.4, -0.5]], [[-1.4, i * 0.7, -0.5], [1.4, i * 0.7, -0.5]]]) {
      pen.moveTo(...place(a).slice(0, 2));
      pen.lineTo(...place(b).slice(0, 2));
    }
  pen.stroke();
  pen.font = `12px ${inks.sans}`;
  pen.textAlign = "center";
  pen.fillStyle = inks.muted;
  const q = unitOf(quaternion);
  if (!q) { pen.fillText("no attitude", width / 2, height - 8); return; }
  const faces = FACES.map(([axis, side, colour]) => {
    const [u, v] = [0, 1, 2].filter((other) => other !== axis);
    const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => {
      const corner = [0, 0, 0];
      [corner[axis], corner[u], corner[v]] = [side * BODY[axis], a * BODY[u], b * BODY[v]];
      return place(turned(q, corner));
    });
    return { corners, colour, near: corners.reduce((sum, corner) => sum + corner[2], 0) };
  });
  pen.lineJoin = "round";
  for (const { corners, colour } of faces.sort((a, b) => a.near - b.near)) {
    pen.beginPath();
    corners.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y));
    pen.closePath();
    pen.fillStyle = inks[colour];
    pen.fill();
    pen.strokeStyle = inks.paper;
    pen.lineWidth = 1.5;
    pen.stroke();
  }
  pen.fillStyle = inks.ink;
  pen.fillText(anglesText(q), width / 2, height - 8);
};
