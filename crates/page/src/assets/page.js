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

  // ---- numbers as text --------------------------------------------------------------------------------------

  const percentile = (x) => {
    const p = 100 * (1 - 10 ** -x);
    return p.toFixed(Math.max(x > 0.35 && Math.abs(p - Math.round(p)) > 0.05 ? 1 : 0, Math.min(7, Math.ceil(x - 1e-6) - 2))) + " %";
  };

  const logTicks = (low, high) => {
    const first = Math.floor(low), last = Math.ceil(high), ticks = [];
    const marks = last - first <= 2 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil((last - first) / 6));
    for (let d = first; d <= last; d += every)
      for (const m of marks) {
        const v = d + Math.log10(m);
        if (v >= low - 1e-9 && v <= high + 1e-9) ticks.push(v);
      }
    return ticks;
  };

  const percentileTicks = (low, high) => {
    const wanted = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999];
    return wanted.map((p) => -Math.log10(1 - p)).filter((x) => x >= low - 1e-9 && x <= high + 1e-9);
  };

  // ---- plots that move together -----------------------------------------------------------------------------

  const groups = new Map();
  const groupOf = (name) => {
    const made = { plots: [], robots: [], view: null, pointed: null };
    if (!name) return made;
    if (!groups.has(name)) groups.set(name, made);
    return groups.get(name);
  };

  const extentOf = (group) => {
    let low = Infinity, high = -Infinity;
    for (const plot of group.plots)
      for (const { x } of plot.lines)
        if (x.length) { low = Math.min(low, x[0]); high = Math.max(high, x[x.length - 1]); }
    if (!(low <= high)) return [0, 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  };

  // ---- one plot ---------------------------------------------------------------------------------------------

  class Plot {
    constructor(figure) {
      this.figure = figure;
      this.spec = JSON.parse(figure.querySelector("script").textContent);
      this.lines = this.spec.lines.map(readLine);
      this.log = this.spec.y.log;
      this.compact = figure.classList.contains("compact");
      if (this.spec.kind === "stack") this.stackUp();
      this.group = groupOf(this.spec.group);
      this.group.plots.push(this);
      this.build();
      this.listen();
    }

    // A stacked part is drawn between the sum of those below it and that sum with itself.
    stackUp() {
      let below = null;
      for (const line of this.lines) {
        line.own = line.y;
        line.base = below || new Float32Array(line.y.length);
        line.y = line.own.map((v, i) => v + line.base[i]);
        below = line.y;
      }
    }

    get drawn() { return this.lines.filter((line) => line.shown); }

    get view() { return this.group.view || extentOf(this.group); }

    build() {
      this.area = element("div", "area");
      this.canvas = element("canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", this.describe());
      this.cursor = element("div", "cursor");
      this.selection = element("div", "selection");
      this.tip = element("div", "tip");
      this.area.append(this.canvas, this.cursor, this.selection, this.tip);
      this.tools = element("div", "tools");
      this.buildTools();
      this.figure.append(this.tools, this.area);
    }

    describe() {
      const names = this.lines.map((line) => {
        const values = Array.from(line.own || line.y).filter(Number.isFinite);
        const [low, high] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
        return values.length ? `${line.name} from ${spoken(low, this.spec.y.unit)} to ${spoken(high, this.spec.y.unit)}` : `${line.name} empty`;
      });
      return `${this.spec.title}: ${names.join("; ")}`;
    }

    buildTools() {
      for (const line of this.lines) {
        const button = element("button", "series");
        button.type = "button";
        button.append(element("i", `c${line.colour} ${line.stroke}`), line.name);
        button.setAttribute("aria-pressed", "true");
        button.addEventListener("click", () => {
          line.shown = !line.shown;
          button.setAttribute("aria-pressed", String(line.shown));
          this.draw();
        });
        if (this.lines.length > 1) this.tools.append(button);
      }
      const range = element("div", "range");
      this.reset = element("button", "reset", "whole range");
      this.reset.type = "button";
      this.reset.addEventListener("click", () => this.zoom(null));
      range.append(this.reset);
      this.full = element("button", "full", "full height");
      this.full.type = "button";
      this.full.title = "show the values that are cut";
      this.full.addEventListener("click", () => { this.uncut = !this.uncut; this.draw(); });
      range.append(this.full);
      if (this.spec.kind !== "stack" && !this.compact) range.append(this.logButton());
      this.tools.append(range);
    }

    logButton() {
      const button = element("button", "log", "log");
      button.type = "button";
      button.title = "logarithmic vertical axis";
      button.setAttribute("aria-pressed", String(this.log));
      button.addEventListener("click", () => {
        this.log = !this.log;
        button.setAttribute("aria-pressed", String(this.log));
        this.draw();
      });
      return button;
    }

    // ---- what the reader does

    listen() {
      const canvas = this.canvas;
      const at = (event) => event.clientX - canvas.getBoundingClientRect().left;
      canvas.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        this.dragFrom = at(event);
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        this.point(at(event));
        if (this.dragFrom !== undefined) this.showSelection(this.dragFrom, at(event));
      });
      canvas.addEventListener("pointerup", (event) => {
        const from = this.dragFrom;
        this.dragFrom = undefined;
        this.selection.style.display = "none";
        if (from !== undefined && Math.abs(at(event) - from) > 5) this.zoom([from, at(event)].map((p) => this.fromPixel(p)).sort((a, b) => a - b));
      });
      canvas.addEventListener("pointercancel", () => {
        this.dragFrom = undefined;
        this.selection.style.display = "none";
      });
      canvas.addEventListener("pointerleave", () => this.unpoint());
      canvas.addEventListener("dblclick", () => this.zoom(null));
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("blur", () => this.unpoint());
    }

    key(event) {
      const [low, high] = this.view, middle = (low + high) / 2, half = (high - low) / 2;
      const moves = {
        "+": [middle - half / 2, middle + half / 2],
        "=": [middle - half / 2, middle + half / 2],
        "-": [middle - half * 2, middle + half * 2],
        ArrowLeft: [low - half / 2, high - half / 2],
        ArrowRight: [low + half / 2, high + half / 2],
        Escape: null,
        0: null,
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      this.zoom(moves[event.key]);
    }

    zoom(range) {
      const [low, high] = extentOf(this.group);
      if (range) {
        const span = Math.min(range[1] - range[0], high - low);
        const start = Math.min(Math.max(range[0], low), high - span);
        range = span >= (high - low) * 0.9999 || span <= (high - low) * 1e-7 ? null : [start, start + span];
      }
      this.group.view = range;
      this.group.plots.forEach((plot) => plot.draw());
      this.group.robots.forEach((robot) => robot.draw());
      if (this.pointer !== undefined) this.point(this.pointer);
    }

    showSelection(from, to) {
      const [left, right] = [from, to].map((p) => Math.min(Math.max(p, this.left), this.right)).sort((a, b) => a - b);
      Object.assign(this.selection.style, { display: "block", left: `${left}px`, width: `${right - left}px`, top: `${this.top}px`, height: `${this.bottom - this.top}px` });
    }

    point(pixel) {
      this.pointer = pixel;
      const value = this.fromPixel(Math.min(Math.max(pixel, this.left), this.right));
      this.group.pointed = value;
      this.group.plots.forEach((plot) => plot.showCursor(value));
      this.group.robots.forEach((robot) => robot.draw());
      this.showTip(value);
    }

    unpoint() {
      this.pointer = undefined;
      for (const plot of this.group.plots) plot.cursor.style.display = "none";
      this.tip.style.display = "none";
    }

    showCursor(value) {
      if (this.left === undefined) return;
      Object.assign(this.cursor.style, { display: "block", left: `${this.toPixel(value)}px`, top: `${this.top}px`, height: `${this.bottom - this.top}px` });
    }

    sayX(value) {
      const { label, unit } = this.spec.x;
      if (this.spec.kind === "percentiles") return percentile(value);
      if (this.spec.group === "time") return `${value.toFixed(4)} s`;
      return `${label} ${spoken(value, unit)}`;
    }

    showTip(value) {
      const lines = this.drawn.filter((line) => line.x.length);
      const tip = this.tip;
      tip.replaceChildren();
      const bars = this.spec.kind === "bars";
      const index = (line) => bars ? Math.max(0, lowerBound(line.x, value + 1e-300) - 1) : nearest(line.x, value);
      const anchor = lines.length ? lines[0].x[index(lines[0])] : value;
      tip.append(element("b", "", this.sayX(anchor)));
      for (const line of (this.spec.kind === "stack" ? [...lines].reverse() : lines)) {
        const row = element("div");
        row.append(element("i", `c${line.colour}`), `${line.name} `, element("em", "", spoken((line.own || line.y)[index(line)], this.spec.y.unit)));
        tip.append(row);
      }
      if (this.spec.kind === "stack" && lines.length) {
        const sum = lines.reduce((total, line) => total + line.own[index(line)], 0);
        const row = element("div");
        row.append("sum ", element("em", "", spoken(sum, this.spec.y.unit)));
        tip.append(row);
      }
      const near = (this.view[1] - this.view[0]) * 5 / (this.right - this.left);
      for (const marker of this.spec.markers)
        if (Math.abs(marker.x - value) < near) tip.append(element("div", marker.level, marker.label));
      tip.style.display = "block";
      const pixel = this.toPixel(value), width = tip.offsetWidth;
      tip.style.left = `${pixel + 14 + width > this.area.clientWidth ? Math.max(0, pixel - width - 14) : pixel + 14}px`;
      tip.style.top = `${this.top + 4}px`;
    }

    // ---- drawing

    toPixel(x) {
      const [low, high] = this.view;
      return this.left + (x - low) / (high - low) * (this.right - this.left);
    }

    fromPixel(pixel) {
      const [low, high] = this.view;
      return low + (pixel - this.left) / (this.right - this.left) * (high - low);
    }

    toRow(y) {
      const [low, high] = this.range;
      const v = this.log ? (y > 0 ? Math.log10(y) : low) : y;
      return this.bottom - (Math.max(Math.min(v, high + (high - low)), low - (high - low)) - low) / (high - low) * (this.bottom - this.top);
    }

    // The vertical range of what is in view.
    fitY() {
      let low = Infinity, high = -Infinity, leastPositive = Infinity;
      const take = (v) => {
        if (!Number.isFinite(v)) return;
        if (v < low) low = v;
        if (v > high) high = v;
        if (v > 0 && v < leastPositive) leastPositive = v;
      };
      const [from, to] = this.view;
      for (const line of this.drawn) {
        const first = Math.max(0, lowerBound(line.x, from) - 1), last = Math.min(line.x.length - 1, lowerBound(line.x, to));
        for (let i = first; i <= last; i++) take(line.y[i]);
      }
      this.cut = null;
      if (!(low <= high)) return [0, 1];
      const [least, most] = this.cutAt();
      if (low < least || high > most) this.cut = [low, high];
      if (this.cut && this.spec.kind === "stack") return [0, most];
      [low, high] = [Math.max(low, least), Math.min(high, most)];
      const inData = [low, high], near = Math.max(high - low, Math.abs(high) * 1e-3) / 4;
      // A limit far away would flatten the curves.
      for (const { y } of this.spec.limits) if (y <= inData[1] + near && y >= inData[0] - near) take(y);
      if (this.log) {
        if (leastPositive === Infinity) return [0, 1];
        const bottom = this.spec.kind === "bars" ? -0.2 : Math.log10(leastPositive);
        const top = Math.max(Math.log10(high), bottom + 0.3);
        return [bottom - (this.spec.kind === "bars" ? 0 : (top - bottom) * 0.05), top + (top - bottom) * 0.06];
      }
      const startsAtZero = this.spec.kind !== "lines" || (inData[0] >= 0 && PREFIXES[this.spec.y.unit]);
      if (startsAtZero) low = Math.min(low, 0);
      if (high === low) { low -= startsAtZero ? 0 : 0.5 * Math.abs(low) || 1; high += 0.5 * Math.abs(high) || 1; }
      const room = (high - low) * 0.06;
      return [startsAtZero && low === 0 ? 0 : low - room, high + room];
    }

    // What is far from all the others is cut, and marked: it would leave nothing to see of them. Of a whole run, stacks are cut a little
    // above the last of their limits.
    cutAt() {
      const nothing = [-Infinity, Infinity];
      if (this.uncut || this.log) return nothing;
      if (this.spec.kind === "stack") {
        const isCut = this.spec.limits.length && !this.group.view;
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

    // Sizes are whole pixels of the screen, so that lines are sharp.
    resize() {
      const ratio = window.devicePixelRatio || 1, width = this.area.clientWidth, height = this.area.clientHeight;
      if (!(width > 0 && height > 0)) return false;
      const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
      this.pen = this.canvas.getContext("2d");
      this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.pen.clearRect(0, 0, width, height);
      this.left = this.compact ? 46 : 62;
      this.right = width - 12;
      this.top = this.compact ? 16 : 22;
      this.bottom = height - (this.compact ? 22 : 38);
      return this.right > this.left + 20 && this.bottom > this.top + 20;
    }

    draw() {
      if (!this.resize()) return;
      const style = getComputedStyle(document.documentElement);
      this.ink = (name) => style.getPropertyValue(`--${name}`).trim();
      this.range = this.fitY();
      this.pen.font = `${this.compact ? 10.5 : 12}px ${style.getPropertyValue("--sans")}`;
      this.drawAxes();
      this.pen.save();
      this.pen.beginPath();
      this.pen.rect(this.left, this.top - 2, this.right - this.left, this.bottom - this.top + 3);
      this.pen.clip();
      if (this.spec.kind !== "stack") this.drawMarkers();
      for (const line of this.drawn) this.drawLine(line);
      if (this.spec.kind === "stack") this.drawMarkers();
      const beyond = this.drawLimits();
      this.pen.restore();
      if (this.cut) this.markCut(); else this.sayBeyond(beyond);
      const empty = !this.drawn.some((line) => line.y.some(Number.isFinite));
      if (empty) this.text("no values", (this.left + this.right) / 2, (this.top + this.bottom) / 2, "center", "middle");
      this.reset.hidden = !this.group.view;
      this.full.hidden = !this.cut && !this.uncut;
      this.full.setAttribute("aria-pressed", String(Boolean(this.uncut)));
      this.figure.dataset.view = this.view.join(" ");
    }

    text(words, x, y, align, baseline, colour = "faint") {
      Object.assign(this.pen, { fillStyle: this.ink(colour), textAlign: align, textBaseline: baseline });
      this.pen.fillText(words, x, y);
    }

    rule(x1, y1, x2, y2) {
      this.pen.beginPath();
      this.pen.moveTo(x1, y1);
      this.pen.lineTo(x2, y2);
      this.pen.stroke();
    }

    drawAxes() {
      const pen = this.pen;
      pen.lineWidth = 1;
      pen.setLineDash([]);
      pen.strokeStyle = this.ink("grid");
      this.drawYAxis();
      this.drawXAxis();
      pen.strokeStyle = this.ink("axis");
      this.rule(this.left, Math.round(this.bottom) + 0.5, this.right, Math.round(this.bottom) + 0.5);
    }

    drawYAxis() {
      const [low, high] = this.range, { unit } = this.spec.y;
      const most = Math.max(2, Math.floor((this.bottom - this.top) / (this.compact ? 22 : 42)));
      const ticks = this.log ? logTicks(low, high) : linearTicks(low, high, most);
      const values = ticks.map((t) => this.log ? 10 ** t : t);
      const shared = readable(unit, Math.max(Math.abs(low), Math.abs(high)));
      for (const value of values) {
        const row = Math.round(this.toRow(value)) + 0.5;
        this.rule(this.left, row, this.right, row);
        const words = this.log ? spoken(value, unit, 3) : trimmed(+(value * shared.factor).toPrecision(8), 6);
        this.text(words, this.left - 7, row, "right", "middle", "muted");
      }
      this.text(this.axisName(), this.left, 1, "left", "top", "muted");
    }

    drawXAxis() {
      const [low, high] = this.view, { unit, label } = this.spec.x;
      const most = Math.max(2, Math.floor((this.right - this.left) / 80));
      const percentiles = this.spec.kind === "percentiles";
      let ticks = percentiles ? percentileTicks(low, high) : linearTicks(low, high, most);
      if (percentiles && ticks.length < 2) ticks = linearTicks(low, high, most);
      const shared = unit === "s" ? { factor: 1, unit } : readable(unit, Math.max(Math.abs(low), Math.abs(high)));
      let free = -Infinity;
      // A small plot has no room for the axis's name: its last tick has the unit.
      const named = this.compact && !percentiles ? ticks.at(-1) : NaN;
      for (const tick of ticks) {
        const x = Math.round(this.toPixel(tick)) + 0.5;
        this.rule(x, this.top, x, this.bottom);
        const number = percentiles ? percentile(tick) : trimmed(+(tick * shared.factor).toPrecision(10), 8);
        const words = tick === named ? `${number} ${shared.unit}`.trim() : number;
        const half = this.pen.measureText(words).width / 2;
        const inside = Math.min(x, this.right + 10 - half);
        if (inside - half < free) continue;
        free = inside + half + 8;
        this.text(words, inside, this.bottom + 7, "center", "top", "muted");
      }
      if (!this.compact) this.text([label, percentiles ? "" : shared.unit].filter(Boolean).join(" / "), this.right, this.bottom + 36, "right", "bottom", "muted");
    }

    drawMarkers() {
      const pen = this.pen;
      pen.setLineDash([2, 3]);
      for (const marker of this.spec.markers) {
        const x = Math.round(this.toPixel(marker.x)) + 0.5;
        if (x < this.left || x > this.right) continue;
        pen.strokeStyle = this.ink(marker.level);
        this.rule(x, this.top, x, this.bottom);
      }
      pen.setLineDash([]);
    }

    // Returns those that are not in view.
    drawLimits() {
      const pen = this.pen, beyond = [], placed = [];
      for (const { y, label } of this.spec.limits) {
        const row = Math.round(this.toRow(y)) + 0.5;
        if (row < this.top || row > this.bottom) { beyond.push({ y, label }); continue; }
        pen.setLineDash([6, 4]);
        pen.strokeStyle = this.ink("bad");
        pen.lineWidth = 1;
        this.rule(this.left, row, this.right, row);
        if (!this.compact) this.limitLabel(label, row, placed);
      }
      pen.setLineDash([]);
      return beyond;
    }

    // Limits that are not in view, above the plot, where no line is: in the longest words there is room for beside the axis's name.
    sayBeyond(limits) {
      if (!limits.length) return;
      const unit = this.spec.y.unit, values = limits.map(({ y }) => spoken(y, unit, 3));
      const words = [
        `not in view: ${limits.map(({ label }, at) => `${label} ${values[at]}`).join(", ")}`,
        `limits not in view: ${values.join(", ")}`,
        "limits not in view",
      ];
      const room = this.right - this.left - this.pen.measureText(this.axisName()).width - 12;
      const fitting = words.find((text) => this.pen.measureText(text).width <= room);
      if (fitting) this.text(fitting, this.right - 4, 1, "right", "top", "muted");
    }

    // An arrow where something is cut, above or below, and how far it goes.
    markCut() {
      const pen = this.pen, lines = this.spec.kind === "stack" ? [this.drawn.at(-1)] : this.drawn, unit = this.spec.y.unit;
      pen.fillStyle = this.ink("bad");
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
      const ends = [this.cut[0] < this.range[0] ? spoken(this.cut[0], unit, 3) : "", this.cut[1] > this.range[1] ? spoken(this.cut[1], unit, 3) : ""].filter(Boolean);
      const words = [`cut; goes to ${ends.join(" and ")}`, `to ${ends.join(", ")}`], room = this.right - this.left - pen.measureText(this.axisName()).width - 12;
      const fitting = words.find((text) => pen.measureText(text).width <= room);
      if (fitting) this.text(fitting, this.right - 4, 1, "right", "top", "bad");
    }

    axisName() {
      const { unit, label } = this.spec.y, [low, high] = this.range;
      const shared = readable(unit, Math.max(Math.abs(low), Math.abs(high)));
      return [this.compact ? "" : label, this.log ? "" : shared.unit].filter(Boolean).join(" / ");
    }

    // Above its line or below it, to the left of labels that are there.
    limitLabel(label, row, placed) {
      const above = row - this.top > 16, top = above ? row - 17 : row + 3;
      const width = this.pen.measureText(label).width;
      const beside = placed.filter((other) => Math.abs(other.top - top) < 15).map((other) => other.left);
      const right = Math.min(this.right - 4, ...beside.map((left) => left - 10));
      placed.push({ top, left: right - width });
      this.text(label, right, top + (above ? 14 : 1), "right", above ? "bottom" : "top", "bad");
    }

    drawLine(line) {
      if (this.spec.kind === "bars") return this.drawBars(line);
      if (this.spec.kind === "stack") return this.drawPart(line);
      const pen = this.pen;
      pen.strokeStyle = pen.fillStyle = this.ink(`c${line.colour}`);
      pen.lineWidth = this.spec.kind === "percentiles" ? 2 : this.weight(line);
      pen.lineJoin = "round";
      pen.setLineDash(line.stroke === "dashed" ? [6, 4] : []);
      if (line.stroke === "points") this.drawPoints(line, () => true); else this.trace(line);
      pen.setLineDash([]);
    }

    // Dense lines are drawn thin, so that their shape shows.
    weight(line) {
      const [first, last] = this.span(line);
      return (last - first) > (this.right - this.left) ? 0.9 : 1.5;
    }

    span(line) {
      const [low, high] = this.view;
      return [Math.max(0, lowerBound(line.x, low) - 1), Math.min(line.x.length - 1, lowerBound(line.x, high))];
    }

    trace(line) {
      const pen = this.pen, [first, last] = this.span(line);
      const lone = [];
      let run = 0;
      pen.beginPath();
      for (let i = first; i <= last; i++) {
        if (!Number.isFinite(line.y[i])) { if (run === 1) lone.push(i - 1); run = 0; continue; }
        const x = this.toPixel(line.x[i]), y = this.toRow(line.y[i]);
        if (run++) pen.lineTo(x, y); else pen.moveTo(x, y);
      }
      if (run === 1) lone.push(last);
      pen.stroke();
      if (lone.length || last - first < (this.right - this.left) / 12) {
        const few = last - first < (this.right - this.left) / 12;
        this.drawPoints(line, (i) => few || lone.includes(i));
      }
    }

    drawPoints(line, wanted) {
      const [first, last] = this.span(line);
      for (let i = first; i <= last; i++) {
        if (!Number.isFinite(line.y[i]) || !wanted(i)) continue;
        this.pen.beginPath();
        this.pen.arc(this.toPixel(line.x[i]), this.toRow(line.y[i]), 2, 0, 7);
        this.pen.fill();
      }
    }

    drawBars(line) {
      const pen = this.pen, last = line.x.length - 1;
      pen.fillStyle = pen.strokeStyle = this.ink(`c${line.colour}`);
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
      pen.fillStyle = this.ink(`c${line.colour}`);
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
      const [view, { pointed }] = [this.group.view ?? extentOf(this.group), this.group];
      return pointed >= view[0] && pointed <= view[1] && pointed !== null ? pointed : (view[0] + view[1]) / 2;
    }

    draw() {
      if (this.figure.hidden) return;
      const style = getComputedStyle(document.documentElement), { time } = this;
      const at = (line) => line ? line.y[nearest(line.x, time)] ?? NaN : NaN;
      const angle = (which) => (joint) => at(this.lines.get(joint).find(({ name }) => name === which));
      this.skeleton.draw(angle("measured"), angle("commanded"), this.attitude?.map(at), (name) => style.getPropertyValue(`--${name}`).trim());
      this.figure.querySelector(".at").textContent = `at ${time.toFixed(3)} s; point at a plot for another time, drag to turn`;
    }
  }

  // ---- the page ---------------------------------------------------------------------------------------------

  // What is folded is read and drawn once it is opened.
  const plots = [];
  const build = (root) => {
    const figures = [...root.querySelectorAll("figure.plot")].filter((figure) => !figure.closest("details:not([open])") && !figure.querySelector("canvas"));
    plots.push(...figures.map((figure) => new Plot(figure)));
  };
  const robots = [];
  const drawAll = () => [...plots, ...robots].forEach((drawn) => drawn.draw());
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
