// ---- rotations: unit quaternions w, x, y, z -------------------------------------------------------------------

const turned = ([w, x, y, z], [a, b, c]) => {
  const [tx, ty, tz] = [2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)];
  return [a + w * tx + y * tz - z * ty, b + w * ty + z * tx - x * tz, c + w * tz + x * ty - y * tx];
};
const turnedOn = ([w, x, y, z], [v, a, b, c]) =>
  [w * v - x * a - y * b - z * c, w * a + x * v + y * c - z * b, w * b - x * c + y * v + z * a, w * c + x * b - y * a + z * v];
const plus = (one, other, times = 1) => one.map((part, i) => part + times * other[i]);
const LEVEL = [1, 0, 0, 0];

const unitOf = (quaternion) => {
  const norm = Math.hypot(...quaternion);
  return norm > 0 && Number.isFinite(norm) ? quaternion.map((part) => part / norm) : null;
};

const anglesText = ([w, x, y, z]) => [
  ["roll", Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))],
  ["pitch", Math.asin(Math.max(-1, Math.min(1, 2 * (w * y - z * x))))],
  ["yaw", Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))],
].map(([name, angle]) => `${name} ${(angle * 180 / Math.PI).toFixed(1).replace(/^-(?=0\.0$)/, "").replace("-", "−")}°`).join("   ");

// ---- the robot ------------------------------------------------------------------------------------------------

// The robot as its joints hold it, measured and commanded, in perspective; it is turned by dragging. `shape` comes from the log
// (docs/log-format.md), so it may be anything.
class Skeleton {
  static from(shape) {
    const numbers = (list, count) => Array.isArray(list) && list.length === count && list.every(Number.isFinite);
    const isJoint = (joint) => typeof joint?.servo === "string" && numbers(joint.axis, 3) && numbers(joint.at, 3) && Number.isFinite(joint.zero);
    const isBody = (body, place) => body && (body.parent === null || Number.isInteger(body.parent) && body.parent >= 0 && body.parent < place)
      && numbers(body.at, 3) && numbers(body.quat, 4) && Array.isArray(body.joints) && body.joints.every(isJoint)
      && Array.isArray(body.lines) && body.lines.every((line) => numbers(line, 7));
    const isSound = Array.isArray(shape?.bodies) && shape.bodies.length > 0 && shape.bodies.every(isBody);
    return isSound ? new Skeleton(shape) : null;
  }

  constructor(shape) {
    this.shape = shape;
    this.servos = [...new Set(shape.bodies.flatMap(({ joints }) => joints.map(({ servo }) => servo)))];
    const rest = this.pose(() => 0), ends = rest.flatMap(({ from, to }) => [from, to]);
    const sides = [0, 1, 2].map((axis) => [Math.min(...ends.map((end) => end[axis])), Math.max(...ends.map((end) => end[axis]))]);
    this.middle = sides.map(([low, high]) => (low + high) / 2);
    this.reach = Math.max(1e-3, ...ends.map((end) => Math.hypot(...plus(end, this.middle, -1))));
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "the robot, measured and commanded; arrow keys turn it");
    this.face();
    this.changed = () => {};
    this.listen();
  }

  // As one sees it at first: from behind, from the right and from above.
  face() { Object.assign(this, { yaw: -0.6, height: 0.35 }); }

  turn(yaw, height) {
    this.yaw += yaw;
    this.height = Math.max(-0.2, Math.min(1.5, this.height + height));
    this.changed();
  }

  listen() {
    const canvas = this.canvas;
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      last = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      // A finger that moves up and down scrolls the page.
      const [x, y] = [event.clientX - last[0], event.pointerType === "mouse" ? event.clientY - last[1] : 0];
      last = [event.clientX, event.clientY];
      this.turn(-x * 0.01, y * 0.01);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
    canvas.addEventListener("dblclick", () => { this.face(); this.changed(); });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0.15, 0], ArrowRight: [-0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] }[event.key];
      if (!by) return;
      event.preventDefault();
      this.turn(...by);
    });
  }

  // Segments of all bodies in the frame of the first; null while an angle is not known.
  pose(angleOf) {
    const places = [], found = [];
    for (const { parent, at, quat, joints, lines } of this.shape.bodies) {
      const held = parent === null ? { p: [0, 0, 0], q: LEVEL, moves: false } : places[parent], moves = held.moves || joints.length > 0;
      let { p, q } = held;
      p = plus(p, turned(q, at));
      q = turnedOn(q, quat);
      for (const { servo, slides, axis, at: about, zero } of joints) {
        const by = angleOf(servo) - zero;
        if (!Number.isFinite(by)) return null;
        if (slides) { p = plus(p, turned(q, axis), by); continue; }
        const pivot = plus(p, turned(q, about));
        q = turnedOn(q, [Math.cos(by / 2), ...axis.map((part) => part * Math.sin(by / 2))]);
        p = plus(pivot, turned(q, about), -1);
      }
      places.push({ p, q, moves });
      for (const [a, b, c, x, y, z, radius] of lines) found.push({ from: plus(p, turned(q, [a, b, c])), to: plus(p, turned(q, [x, y, z])), radius, moves });
    }
    return found;
  }

  // `measured` and `commanded` give the angle of a servo's joint, `attitude` is a quaternion or null.
  draw(measured, commanded, attitude) {
    const found = sized(this.canvas);
    if (!found) return;
    const { pen, width, height } = found, { floats } = this.shape;
    const tilt = floats && attitude ? unitOf(attitude) : null;
    const placed = (pose) => pose && pose.map((line) => ({ ...line, from: turned(tilt ?? LEVEL, line.from), to: turned(tilt ?? LEVEL, line.to) }));
    const real = placed(this.pose(measured)), wanted = placed(this.pose(commanded));
    const lowest = (pose) => Math.min(...pose.flatMap(({ from, to, radius }) => [from[2] - radius, to[2] - radius]));
    // The position of a robot that walks about is not measured: the ground is below what is lowest, and stays where it is on the screen.
    const ground = floats ? (real ? lowest(real) : -this.reach) : Math.min(0, lowest(this.pose(() => 0)));
    const aim = floats ? [0, 0, ground + this.reach * 0.42] : this.middle;
    const camera = this.camera(width, height, aim);
    pen.font = `12px ${inks.sans}`;
    this.drawGround(pen, camera, ground);
    if (real) this.drawBodies(pen, camera, real);
    if (wanted) this.drawWanted(pen, camera, wanted);
    Object.assign(pen, { textAlign: "right", textBaseline: "top", fillStyle: inks.muted });
    if (tilt || !real) pen.fillText(real ? anglesText(tilt) : "angles unknown", width - 8, 8);
  }

  // From a point to its place on the screen, its nearness and its scale.
  camera(width, height, aim) {
    const far = 4 * this.reach, scale = Math.min(width * 0.62, height * 0.54) / this.reach;
    const [sin, cos] = [Math.sin(this.yaw), Math.cos(this.yaw)], [up, level] = [Math.sin(this.height), Math.cos(this.height)];
    return (point) => {
      const [x, y, z] = plus(point, aim, -1), forward = x * cos - y * sin, left = x * sin + y * cos;
      const near = z * up - forward * level, grown = scale * far / Math.max(far - near, far * 0.1);
      return [width / 2 - left * grown, height * 0.5 - (z * level + forward * up) * grown, near, grown];
    };
  }

  drawGround(pen, camera, ground) {
    const step = linearTicks(0, this.reach, 3).at(1) ?? this.reach, half = 4 * step;
    const rule = (from, to) => { pen.moveTo(...camera(from).slice(0, 2)); pen.lineTo(...camera(to).slice(0, 2)); };
    pen.strokeStyle = inks.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let i = -4; i <= 4; i++) {
      rule([i * step, -half, ground], [i * step, half, ground]);
      rule([-half, i * step, ground], [half, i * step, ground]);
    }
    pen.stroke();
    Object.assign(pen, { fillStyle: inks.muted, textAlign: "left", textBaseline: "top" });
    pen.fillText(`grid ${trimmed(step, 3)} m`, 8, 8);
    if (!this.shape.floats) return;
    // Where its front is.
    const tip = [this.reach * 1.25, 0, ground], sides = [0.07, -0.07].map((y) => [this.reach * 1.12, y * this.reach, ground]);
    pen.strokeStyle = inks.muted;
    pen.lineWidth = 1.5;
    pen.beginPath();
    rule([this.reach * 0.95, 0, ground], tip);
    sides.forEach((side) => rule(side, tip));
    pen.stroke();
  }

  // What is far away first; a rim in the colour of the paper shows what is in front of what.
  drawBodies(pen, camera, pose) {
    const seen = pose.map(({ from, to, radius }) => ({ a: camera(from), b: camera(to), radius }));
    seen.sort((one, other) => one.a[2] + one.b[2] - other.a[2] - other.b[2]);
    pen.lineCap = "round";
    for (const { a, b, radius } of seen) {
      const wide = Math.max(2, radius * (a[3] + b[3]));
      for (const [colour, more] of [["card", 2.5], ["c0", 0]]) {
        pen.strokeStyle = inks[colour];
        pen.lineWidth = wide + more;
        pen.beginPath();
        pen.moveTo(a[0], a[1]);
        pen.lineTo(b[0], b[1] + (a[0] === b[0] && a[1] === b[1] ? 0.01 : 0));
        pen.stroke();
      }
    }
    pen.lineCap = "butt";
  }

  drawWanted(pen, camera, pose) {
    pen.strokeStyle = inks.c1;
    pen.lineWidth = 1.75;
    pen.setLineDash([5, 3]);
    pen.beginPath();
    for (const { from, to, moves } of pose) {
      if (!moves) continue;
      pen.moveTo(...camera(from).slice(0, 2));
      pen.lineTo(...camera(to).slice(0, 2));
    }
    pen.stroke();
    pen.setLineDash([]);
  }
}
