"use strict";
// What the report and the live view have in common.

// The first index whose x is at least the value.
const lowerBound = (x, value) => {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
};

const nearest = (x, value) => {
  const i = lowerBound(x, value);
  if (i === 0) return x.length ? 0 : -1;
  if (i === x.length) return i - 1;
  return value - x[i - 1] <= x[i] - value ? i - 1 : i;
};

// ---- numbers as text --------------------------------------------------------------------------------------

const PREFIXES = { ns: 1, us: 1e3, s: 1e9 };

// The factor and unit in which a value of this size is best read.
const readable = (unit, size) => {
  const base = PREFIXES[unit];
  if (!base) return { factor: 1, unit };
  const ns = size * base;
  if (ns >= 1e9) return { factor: base / 1e9, unit: "s" };
  if (ns >= 1e6) return { factor: base / 1e6, unit: "ms" };
  if (ns >= 1e3) return { factor: base / 1e3, unit: "µs" };
  return { factor: base, unit: "ns" };
};

const trimmed = (value, digits) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(Math.max(0, digits - 2)) : String(+value.toPrecision(digits));
  return text.replace(/-/g, "−");
};

const spoken = (value, unit, digits = 4) => {
  if (!Number.isFinite(value)) return "–";
  const r = readable(unit, Math.abs(value));
  return (trimmed(value * r.factor, digits) + " " + r.unit).trim();
};

const linearTicks = (low, high, most) => {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
};

const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// ---- canvases -------------------------------------------------------------------------------------------------

// The sizes of canvases: to ask for them in every frame would have the page laid out in every frame.
const sizes = new WeakMap();
const isSized = new ResizeObserver((entries) => { for (const { target } of entries) sizes.delete(target); });
const sizeOf = (canvas) => {
  if (!sizes.has(canvas)) {
    sizes.set(canvas, { width: canvas.clientWidth, height: canvas.clientHeight });
    isSized.observe(canvas);
  }
  return sizes.get(canvas);
};

// Makes a canvas as sharp as the screen and returns what draws on it, or null while it has no size.
const sized = (canvas) => {
  const ratio = window.devicePixelRatio || 1, { width, height } = sizeOf(canvas);
  if (!(width > 0 && height > 0)) return null;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
};

// ---- colours --------------------------------------------------------------------------------------------------

// Those of the page by their names, and its font, as of when they were read: to ask for them in every frame is slow.
const inks = {};
const readInks = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "faint", "grid", "axis", "line", "card", "paper", "good", "note", "warning", "bad", "sans", ..."01234567".split("").map((n) => `c${n}`)])
    inks[name] = style.getPropertyValue(`--${name}`).trim();
};
