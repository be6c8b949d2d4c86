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

// ---- one plot -------------------------------------------------------------------------------------------------

// Signals over time, µs. The host has the history, too, and the level of it that is shown.
class LivePlot extends Chart {
  constructor(host, { title, unit, lines, zero = false, names = null, keyed = true, onClose = null }) {
    super(host, { title, y: { unit, names }, lines, compact: true, description: `${title}: ${lines.map((line) => line.name).join(", ")}` });
    Object.assign(this, { zero, visible: false });
    this.figure = element("figure");
    const caption = element("figcaption");
    caption.append(element("b", "", title));
    if (keyed) caption.append(...lines.map((line) => keyOf(line)));
    if (onClose) {
      const close = element("button", "", "remove");
      close.type = "button";
      close.addEventListener("click", onClose);
      caption.append(close);
    }
    this.figure.append(caption, this.area);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  get marks() { return this.host.marks; }
  get footMarks() { return this.host.late; }
  get across() { return { unit: "s", factor: 1e-6, origin: this.host.origin() }; }

  // A page that is read like a text cannot have it.
  wheel(event) {
    event.preventDefault();
    const { deltaX, deltaY, shiftKey } = event, [from, to] = this.view;
    if (Math.abs(deltaX) > Math.abs(deltaY) || shiftKey) this.host.pan((deltaX || deltaY) / this.inner * (to - from));
    else this.host.zoom(this.fromPixel(this.pixelOf(event)), 1.0015 ** Math.max(-400, Math.min(400, deltaY)));
  }

  columns(line) {
    const [from, to] = this.view, columns = new Columns(window.devicePixelRatio || 1);
    const found = this.host.history.best(this.host.level(), line.signal, from, to);
    if (!found) return columns;
    const [level, data] = found, size = 2 ** level, scale = this.inner / (to - from);
    const first = Math.max(data.from, Math.floor(from / size) - 1), last = Math.min(data.seen, Math.ceil(to / size) + 1);
    let filled = 0, start = -1, end = -1;
    for (let i = first; i < last; i++) if (data.min[i % KEPT] <= data.max[i % KEPT]) { filled++; if (start < 0) start = i; end = i; }
    // Further apart than this the values are no neighbours: something is missing between them.
    const gap = filled > 1 ? Math.max(2, 4 * (end - start) / (filled - 1)) : 2;
    let before = -Infinity;
    for (let i = Math.max(start, first); i <= end; i++) {
      const min = data.min[i % KEPT], max = data.max[i % KEPT];
      if (!(min <= max)) continue;
      columns.add(this.left + ((i + 0.5) * size - from) * scale, min, max, i - before <= gap);
      before = i;
    }
    return columns;
  }

  // The vertical range: as wide as what is in view, and not narrower at once when that gets less.
  fit(paths) {
    let low = Math.min(...paths.map((path) => path.low)), high = Math.max(...paths.map((path) => path.high));
    const has = this.range;
    if (!(low <= high)) return has ?? [0, 1];
    if (this.zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const fits = has && has[0] <= low && has[1] >= high && (high - low) > (has[1] - has[0]) * 0.55;
    if (fits) return has;
    const room = (high - low) * 0.07 || Math.abs(high) * 0.1 || 0.5;
    return [this.zero && low === 0 ? 0 : low - room, high + room];
  }

  // ---- what the pointer reads

  heading(us) { return this.host.clock(us); }

  reading(line, us) {
    const found = this.host.history.best(this.host.level(), line.signal, us - 1e6, us + 1e6);
    if (!found) return "–";
    const [level, data] = found, at = Math.floor(us / 2 ** level), [from, to] = this.view;
    // The nearest bucket with a value, within the width of a finger.
    const reach = Math.ceil((to - from) * 12 / this.inner / 2 ** level);
    for (let off = 0; off <= reach; off++)
      for (const i of [at - off, at + off]) {
        if (i < data.from || i >= data.seen) continue;
        const min = data.min[i % KEPT], max = data.max[i % KEPT];
        if (min <= max) return this.between(min, max);
      }
    return "–";
  }

  between(min, max) {
    const { unit, names } = this.y, words = (value) => names ? names.get(value) ?? String(value) : spoken(value, unit);
    return [...new Set([min, max])].map(words).join(" … ");
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
    for (const mark of this.host.marks) { pen.fillStyle = inks[mark.level]; pen.fillRect(x(mark.x), 0, 1.5, height); }
    pen.fillStyle = inks.bad;
    for (const late of this.host.late) pen.fillRect(x(late.x) - 1, height - 7, 2, 7);
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
