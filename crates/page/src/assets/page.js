(() => {
  // ---- data -------------------------------------------------------------------------------------------------

  const floats = (text) => {
    const raw = atob(text);
    const bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };

  const readLine = (line, index) => {
    const y = floats(line.y);
    const x = new Float64Array(y.length);
    const offsets = line.x ? floats(line.x) : null;
    for (let i = 0; i < y.length; i++) x[i] = line.start + (offsets ? offsets[i] : i * line.step);
    return { name: line.name, stroke: line.stroke, x, y, colour: (line.colour ?? index) % 8, shown: true };
  };

  // ---- plots that move together -----------------------------------------------------------------------------

  // What all of them show of their horizontal axis.
  class Group {
    constructor() { Object.assign(this, { plots: [], robots: [], low: Infinity, high: -Infinity, zoomed: null, pointed: null, pointing: null, last: null }); }

    add(plot) {
      this.plots.push(plot);
      for (const { x } of plot.lines) if (x.length) [this.low, this.high] = [Math.min(this.low, x[0]), Math.max(this.high, x.at(-1))];
    }

    whole() {
      const { low, high } = this;
      if (!(low <= high)) return [0, 1];
      return low === high ? [low - 0.5, high + 0.5] : [low, high];
    }

    view() { return this.zoomed ?? this.whole(); }

    show(from, to) {
      const [low, high] = this.whole(), span = Math.min(to - from, high - low), start = Math.min(Math.max(from, low), high - span);
      this.zoomed = span >= (high - low) * 0.9999 || span <= (high - low) * 1e-7 ? null : [start, start + span];
      this.draw();
    }

    pan(by) { this.show(...this.view().map((bound) => bound + by)); }

    zoom(centre, factor) { this.show(...this.view().map((bound) => centre + (bound - centre) * factor)); }

    back() {
      this.zoomed = null;
      this.draw();
    }

    // The pointer stays where it is, over another value.
    draw() {
      const { pointing } = this;
      [...this.plots, ...this.robots].forEach((drawn) => drawn.draw());
      if (pointing) this.hover(pointing.fromPixel(pointing.pixel), pointing);
    }

    hover(x, plot) {
      if (x === null && this.pointing !== plot) return;
      Object.assign(this, { pointed: x, pointing: x === null ? null : plot, last: x ?? this.last });
      this.plots.forEach((plot) => plot.point());
      this.robots.forEach((robot) => robot.draw());
    }
  }

  const groups = new Map();
  const groupOf = (name) => {
    const group = groups.get(name) ?? new Group();
    if (name) groups.set(name, group);
    return group;
  };

  // ---- one plot ---------------------------------------------------------------------------------------------

  // A stacked part is drawn between the sum of those below it and that sum with itself.
  const stackUp = (lines) => {
    let below = null;
    for (const line of lines) {
      line.own = line.y;
      line.y = below ? line.own.map((v, i) => v + below[i]) : line.own;
      below = line.y;
    }
  };

  const describe = ({ title, y: { unit } }, lines) => {
    const names = lines.map(({ name, own, y }) => {
      const [low, high] = (own ?? y).reduce(([a, b], v) => Number.isFinite(v) ? [Math.min(a, v), Math.max(b, v)] : [a, b], [Infinity, -Infinity]);
      return low <= high ? `${name} from ${spoken(low, unit)} to ${spoken(high, unit)}` : `${name} empty`;
    });
    return `${title}: ${names.join("; ")}`;
  };

  class Plot extends Chart {
    static of(figure) {
      const spec = JSON.parse(figure.querySelector("script").textContent), lines = spec.lines.map(readLine);
      if (spec.kind === "stack") stackUp(lines);
      return new Plot(figure, spec, lines);
    }

    constructor(figure, spec, lines) {
      const compact = figure.classList.contains("compact");
      super(groupOf(spec.group), { title: spec.title, y: spec.y, lines, compact, description: describe(spec, lines) });
      Object.assign(this, { figure, spec, log: spec.y.log, weight: spec.kind === "percentiles" ? 2 : 1.5 });
      this.host.add(this);
      figure.append(this.tools(), this.area);
    }

    get drawn() { return this.lines.filter((line) => line.shown); }
    get marks() { return this.spec.markers; }
    get limits() { return this.spec.limits; }

    get across() {
      const { label, unit } = this.spec.x;
      if (this.spec.kind === "percentiles") return { label, unit: "" };
      return { label, origin: 0, ...unit === "s" ? { factor: 1, unit } : readable(unit, Math.max(...this.view.map(Math.abs))) };
    }

    xMarks(low, high, most) { return this.spec.kind === "percentiles" ? percentileMarks(low, high, most) : super.xMarks(low, high, most); }

    tools() {
      const tools = element("div", "tools"), range = element("div", "range");
      const button = (made, does) => {
        made.type = "button";
        made.addEventListener("click", () => { does(); this.draw(); });
        return made;
      };
      for (const line of this.lines) {
        const key = button(keyOf(line, "button", "series"), () => {
          line.shown = !line.shown;
          key.setAttribute("aria-pressed", String(line.shown));
        });
        key.setAttribute("aria-pressed", "true");
        if (this.lines.length > 1) tools.append(key);
      }
      this.reset = button(element("button", "reset", "whole range"), () => this.host.back());
      this.full = button(element("button", "full", "full height"), () => { this.uncut = !this.uncut; });
      this.full.title = "show the values that are cut";
      this.logs = button(element("button", "log", "log"), () => { this.log = !this.log; });
      this.logs.title = "logarithmic vertical axis";
      range.append(this.reset, this.full);
      if (this.spec.kind !== "stack" && !this.compact) range.append(this.logs);
      tools.append(range);
      return tools;
    }

    // ---- what the pointer reads

    // The bar that x is in, else the nearest value.
    indexAt(line, x) { return this.spec.kind === "bars" ? Math.max(0, lowerBound(line.x, x + 1e-300) - 1) : nearest(line.x, x); }

    heading(x) {
      const { label, unit } = this.spec.x, line = this.drawn.find((line) => line.x.length), value = line ? line.x[this.indexAt(line, x)] : x;
      if (this.spec.kind === "percentiles") return percentile(value);
      if (this.spec.group === "time") return `${value.toFixed(4)} s`;
      return `${label} ${spoken(value, unit)}`;
    }

    reading(line, x) { return spoken((line.own ?? line.y)[this.indexAt(line, x)], this.y.unit); }

    readings(x) {
      const rows = super.readings(x).filter(({ line }) => line.x.length);
      if (this.spec.kind !== "stack" || !rows.length) return rows;
      const sum = rows.reduce((total, { line }) => total + line.own[this.indexAt(line, x)], 0);
      return [...rows.reverse(), { name: "sum", words: spoken(sum, this.y.unit) }];
    }

    // ---- what is in view

    span(line) {
      const [low, high] = this.view;
      return [Math.max(0, lowerBound(line.x, low) - 1), Math.min(line.x.length - 1, lowerBound(line.x, high))];
    }

    columns(line) {
      const columns = new Columns(line.stroke === "points" ? undefined : window.devicePixelRatio || 1), [first, last] = this.span(line);
      let joined = false;
      for (let i = first; i <= last; i++) {
        const isThere = Number.isFinite(line.y[i]);
        if (isThere) columns.add(this.toPixel(line.x[i]), line.y[i], line.y[i], joined);
        joined = isThere;
      }
      return columns;
    }

    fit(paths) {
      const of = (what, key) => what(...paths.map((path) => path[key])), { limits, spec: { kind } } = this;
      let low = of(Math.min, "low"), high = of(Math.max, "high");
      this.cut = null;
      if (!(low <= high)) return [0, 1];
      const [least, most] = this.cutAt();
      if (low < least || high > most) this.cut = [low, high];
      if (this.cut && kind === "stack") return [0, most];
      [low, high] = [Math.max(low, least), Math.min(high, most)];
      const near = Math.max(high - low, Math.abs(high) * 1e-3) / 4, startsAtZero = kind !== "lines" || (low >= 0 && PREFIXES[this.y.unit]);
      // A limit far away would flatten the curves.
      const bounds = [low, high, ...limits.map(({ y }) => y).filter((y) => y <= high + near && y >= low - near)];
      [low, high] = [Math.min(...bounds), Math.max(...bounds)];
      if (this.log) return this.fitLogarithms(Math.min(of(Math.min, "leastPositive"), ...bounds.filter((y) => y > 0)), high);
      if (startsAtZero) low = Math.min(low, 0);
      if (high === low) { low -= startsAtZero ? 0 : 0.5 * Math.abs(low) || 1; high += 0.5 * Math.abs(high) || 1; }
      const room = (high - low) * 0.06;
      return [startsAtZero && low === 0 ? 0 : low - room, high + room];
    }

    fitLogarithms(leastPositive, high) {
      if (leastPositive === Infinity) return [0, 1];
      const bars = this.spec.kind === "bars", bottom = bars ? -0.2 : Math.log10(leastPositive), top = Math.max(Math.log10(high), bottom + 0.3);
      return [bottom - (bars ? 0 : (top - bottom) * 0.05), top + (top - bottom) * 0.06];
    }

    // What is far from all the others is cut, and marked: it would leave nothing to see of them. Of a whole run, stacks are cut a little
    // above the last of their limits.
    cutAt() {
      const nothing = [-Infinity, Infinity];
      if (this.uncut || this.log) return nothing;
      if (this.spec.kind === "stack") {
        const isCut = this.spec.limits.length && !this.host.zoomed;
        return isCut ? [-Infinity, 1.25 * Math.max(...this.spec.limits.map(({ y }) => y))] : nothing;
      }
      if (this.spec.kind !== "lines") return nothing;
      // Each line by itself: one that lies elsewhere, as a whole, is no outlier.
      let least = Infinity, most = -Infinity;
      for (const line of this.drawn) {
        const [first, last] = this.span(line), values = line.y.slice(first, last + 1).filter(Number.isFinite).sort();
        if (!values.length) continue;
        const at = (share) => values[Math.round(share * (values.length - 1))];
        const [low, high] = [at(0.01), at(0.99)], room = Math.max(high - low, 1e-3 * Math.max(Math.abs(low), Math.abs(high)));
        most = Math.max(most, values.at(-1) > high + 4 * room ? high + room : values.at(-1));
        least = Math.min(least, values[0] < low - 4 * room ? low - room : values[0]);
      }
      return least <= most ? [least, most] : nothing;
    }

    // ---- drawing

    draw() {
      super.draw();
      if (!this.range) return;
      if (!this.drawn.some((line) => line.y.some(Number.isFinite)))
        this.text("no values", (this.left + this.right) / 2, (this.top + this.bottom) / 2, "center", "middle", "faint");
      this.reset.hidden = !this.host.zoomed;
      this.full.hidden = !this.cut && !this.uncut;
      this.full.setAttribute("aria-pressed", String(Boolean(this.uncut)));
      this.logs.setAttribute("aria-pressed", String(this.log));
      this.figure.dataset.view = this.view.join(" ");
    }

    // Stacks would cover the marks.
    drawInside(paths) {
      super.drawInside(paths);
      if (this.spec.kind === "stack") this.drawMarks();
    }

    drawLine(line, path) {
      if (this.spec.kind === "bars") this.drawBars(line);
      else if (this.spec.kind === "stack") this.drawPart(line);
      else super.drawLine(line, path);
    }

    sayAbove(limits) { if (this.cut) this.markCut(); else super.sayAbove(limits); }

    // An arrow where something is cut, above or below, and how far it goes.
    markCut() {
      const pen = this.pen, lines = this.spec.kind === "stack" ? [this.drawn.at(-1)] : this.drawn, unit = this.spec.y.unit;
      pen.fillStyle = inks.bad;
      const arrows = (isCut, from, to) => {
        for (const line of lines) {
          const [first, last] = this.span(line);
          let free = -Infinity;
          for (let at = first; at <= last; at++) {
            const x = this.toPixel(line.x[at]);
            if (!isCut(line.y[at]) || x < free || x < this.left || x > this.right) continue;
            free = x + 3;
            pen.beginPath();
            pen.moveTo(x - 4, from);
            pen.lineTo(x + 4, from);
            pen.lineTo(x, to);
            pen.fill();
          }
        }
      };
      arrows((y) => y > this.range[1], this.top, this.top - 6);
      arrows((y) => y < this.range[0], this.bottom - 6, this.bottom);
      const ends = this.cut.filter((end) => end < this.range[0] || end > this.range[1]).map((end) => spoken(end, unit, 3));
      this.sayFitting([`cut; goes to ${ends.join(" and ")}`, `to ${ends.join(", ")}`], "bad");
    }

    drawBars(line) {
      const pen = this.pen, last = line.x.length - 1;
      pen.fillStyle = pen.strokeStyle = inks[`c${line.colour}`];
      pen.globalAlpha = this.drawn.length > 1 ? 0.45 : 0.85;
      const floor = this.bottom;
      for (let i = 0; i < last; i++) {
        if (!(line.y[i] > 0)) continue;
        const x = this.toPixel(line.x[i]), w = this.toPixel(line.x[i + 1]) - x, y = this.toRow(line.y[i]);
        pen.fillRect(x, y, Math.max(w - (w > 4 ? 1 : 0), 1), floor - y);
      }
      pen.globalAlpha = 1;
    }

    drawPart(line) {
      const pen = this.pen, [first, last] = this.span(line);
      pen.fillStyle = inks[`c${line.colour}`];
      pen.beginPath();
      const base = (i) => this.drawn.reduce((sum, other) => this.lines.indexOf(other) < this.lines.indexOf(line) ? sum + (other.own[i] || 0) : sum, 0);
      const top = [], bottom = [];
      const flush = () => {
        top.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y));
        bottom.reverse().forEach(([x, y]) => pen.lineTo(x, y));
        top.length = bottom.length = 0;
      };
      for (let i = first; i <= last; i++) {
        const low = base(i), high = low + line.own[i];
        if (!Number.isFinite(high)) { flush(); continue; }
        const x = this.toPixel(line.x[i]);
        top.push([x, this.toRow(high)]);
        bottom.push([x, this.toRow(low)]);
      }
      flush();
      pen.fill();
    }
  }

  // ---- the robot --------------------------------------------------------------------------------------------

  // As the plots of its joints have it at the time that was pointed at last, else in the middle of what they show.
  class Robot {
    constructor(figure) {
      const { skeleton, attitude } = JSON.parse(figure.querySelector("script").textContent);
      this.figure = figure;
      this.group = groupOf("time");
      this.attitude = attitude.length === 4 ? attitude.map(readLine) : null;
      this.skeleton = Skeleton.from(skeleton);
      const joint = (name) => this.group.plots.find(({ spec }) => spec.title === name && spec.y.label === "position");
      this.lines = new Map(this.skeleton?.servos.map((name) => [name, joint(name)?.lines]));
      // Where the log lacks a joint there is nothing to draw.
      figure.hidden = !this.skeleton || [...this.lines.values()].some((lines) => !lines);
      if (figure.hidden) return;
      this.skeleton.changed = () => this.draw();
      const area = element("div", "area");
      area.append(this.skeleton.canvas);
      figure.append(area);
      this.group.robots.push(this);
    }

    get time() {
      const [low, high] = this.group.view(), { last } = this.group;
      return last !== null && last >= low && last <= high ? last : (low + high) / 2;
    }

    draw() {
      if (this.figure.hidden) return;
      const { time } = this;
      const at = (line) => line ? line.y[nearest(line.x, time)] ?? NaN : NaN;
      const angle = (which) => (joint) => at(this.lines.get(joint).find(({ name }) => name === which));
      this.skeleton.draw(angle("measured"), angle("commanded"), this.attitude?.map(at));
      this.figure.querySelector(".at").textContent = `at ${time.toFixed(3)} s; point at a plot for another time, drag to turn`;
    }
  }

  // ---- the page ---------------------------------------------------------------------------------------------

  // What is folded is read and drawn once it is opened.
  const plots = [];
  const build = (root) => {
    const figures = [...root.querySelectorAll("figure.plot")].filter((figure) => !figure.closest("details:not([open])") && !figure.querySelector("canvas"));
    plots.push(...figures.map((figure) => Plot.of(figure)));
  };
  const robots = [];
  const drawAll = () => { readInks(); [...plots, ...robots].forEach((drawn) => drawn.draw()); };
  for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", () => { build(fold); drawAll(); });
  build(document);
  robots.push(...[...document.querySelectorAll("figure.robot")].map((figure) => new Robot(figure)));
  new ResizeObserver(drawAll).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Paper is white, whatever the screen is.
  addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); drawAll(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); drawAll(); });
  drawAll();
})();
