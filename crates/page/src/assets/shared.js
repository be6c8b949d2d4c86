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
