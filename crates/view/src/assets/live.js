(() => {
  const by = (id) => document.getElementById(id);
  const button = (text, does, className) => {
    const made = element("button", className, text);
    made.type = "button";
    made.addEventListener("click", does);
    return made;
  };
  const now = () => performance.now();
  const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

  // ---- the connection -------------------------------------------------------------------------------------------

  // Longer than this without an answer the page says that what it shows is old, ms.
  const PATIENCE = 1000;
  // The robot's samples come every few ms.
  const SILENCE = 500;
  // A stop that was not confirmed is sent again for so long, ms.
  const STOP_FOR = 5000;

  let socket = null, lastReceived = null, frames = 0, received = 0;
  // When each unanswered question was asked; one of each kind at a time.
  const asked = new Map();
  // Requests to the robot, by number.
  const requests = new Map();
  let nextRequest = 1;
  let run = null, news = null, newsAt = null;
  const seen = { events: 0, late: 0, changes: 0 };
  const lists = { events: [], late: [], changes: [] };

  const isOpen = () => socket !== null && socket.readyState === WebSocket.OPEN;
  const send = (question) => { if (isOpen()) socket.send(JSON.stringify(question)); };

  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/${location.search}`, ["khz.page.v1"]);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => { asked.clear(); ask("run"); });
    socket.addEventListener("message", ({ data }) => {
      lastReceived = now();
      received += data.byteLength ?? data.length;
      if (typeof data === "string") handle(JSON.parse(data)); else take(data);
    });
    socket.addEventListener("close", () => {
      drive.release();
      for (const [id, request] of requests) if (request.kind !== "stop") answer({ id, refused: "the connection was lost" });
      asked.clear();
      setTimeout(connect, 500);
    });
  };

  const ask = (kind, more = {}) => {
    if (!isOpen() || asked.has(kind)) return;
    asked.set(kind, now());
    send({ ask: kind, ...more });
  };
  const askNews = () => ask("news", seen);

  const handle = (message) => {
    if (message.tell === "run") { asked.delete("run"); begin(message); }
    else if (message.tell === "news") { asked.delete("news"); take_news(message); }
    else if (message.tell === "answer") answer(message);
    else if (message.tell === "steering") notify(`Driving: ${message.refused}`, true);
    else if (message.tell === "mistake") notify(`The viewer does not understand this page: ${message.text}. Load it again.`, true);
  };

  // ---- requests to the robot ------------------------------------------------------------------------------------

  const request = (kind, question, done) => {
    const id = nextRequest++;
    requests.set(id, { kind, done, at: now() });
    if (isOpen()) send({ ...question, id }); else if (kind !== "stop") answer({ id, refused: "not connected" });
    return id;
  };

  const answer = (message) => {
    const known = requests.get(message.id);
    requests.delete(message.id);
    known?.done(message);
  };

  let stopping = null;
  const stop = () => {
    if (!by("stop").hidden && !stopping) {
      stopping = { since: now(), sent: -Infinity };
      drive.release();
      insist();
    }
  };
  // Sends the stop until it is confirmed. A stop that comes twice is one stop.
  const insist = () => {
    if (!stopping) return;
    const ms = now() - stopping.since;
    if (ms > STOP_FOR) { stopping = null; notify("STOP WAS NOT CONFIRMED. Use the emergency stop.", true); showCommands(); return; }
    if (now() - stopping.sent > 250 && isOpen()) {
      stopping.sent = now();
      request("stop", { ask: "stop" }, (message) => {
        if (!stopping) return;
        if (message.refused && !/ended/.test(message.refused)) { notify(`Stop: ${message.refused}`, true); return; }
        stopping = null;
        notify(message.refused ? `Stop: ${message.refused}` : `Stopped by you${message.tick == null ? "" : ` in tick ${grouped(message.tick)}`}.`);
        showCommands();
      });
    }
    if (ms > 500) notify(isOpen() ? "Stop is not confirmed yet …" : "NOT CONNECTED: the stop has not been sent. Use the emergency stop.", true);
    showCommands();
  };

  let sure = 0;
  const arm = () => {
    if (!sure) { sure = setTimeout(() => { sure = 0; showCommands(); }, 3000); showCommands(); return; }
    clearTimeout(sure);
    sure = 0;
    request("arm", { ask: "arm", now_us: news.now_us }, (message) => notify(message.refused ? `Not armed: ${message.refused}` : "Armed.", Boolean(message.refused)));
    showCommands();
  };

  let noticeUntil = 0;
  const notify = (text, bad = false) => {
    const notice = by("notice");
    notice.textContent = text;
    notice.className = bad ? "bad" : "";
    notice.hidden = false;
    noticeUntil = now() + (bad ? 15000 : 6000);
  };

  const showCommands = () => {
    const can = Boolean(news?.is_controllable);
    by("stop").hidden = !can && !stopping;
    by("stop").firstChild.textContent = stopping ? "Stopping …" : "Stop";
    by("arm").hidden = !(can && news.phase === "idle");
    by("arm").textContent = sure ? "Sure? Arm" : "Arm";
    by("arm").classList.toggle("sure", Boolean(sure));
  };

  // Whether a key belongs to a field in which one types.
  const isTyping = (target) => target instanceof HTMLInputElement && !["range", "checkbox"].includes(target.type);

  addEventListener("keydown", (event) => {
    if (event.key !== " " && event.key !== "Escape") return;
    if (by("stop").hidden || (event.key === " " && isTyping(event.target) && event.target.type !== "number")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!event.repeat) stop();
  }, true);
  // A button that has the focus is pressed by the key that goes up.
  addEventListener("keyup", (event) => {
    if (event.key === " " && !by("stop").hidden && !isTyping(event.target)) event.preventDefault();
  }, true);

  // ---- the time that is shown -----------------------------------------------------------------------------------

  const SPANS = [["2 s", 2e6], ["10 s", 1e7], ["60 s", 6e7], ["all", Infinity]];
  // The least that is shown, µs.
  const LEAST = 200;
  const time = { span: 1e7, right: null, playing: null };

  const host = {
    history: new History(),
    marks: [],
    late: [],
    pointed: null,
    pointing: null,
    extent: () => news?.extent_us ?? [0, 1],
    origin: () => host.extent()[0],
    isFollowing: () => time.right === null,
    view() {
      const [first, last] = host.extent();
      const right = time.right ?? last;
      return time.span === Infinity ? [first, Math.max(last, first + 1000)] : [right - time.span, right];
    },
    level() {
      const [from, to] = host.view();
      return levelOf(to - from, screenBuckets());
    },
    // Shows exactly this stretch of time, and stays there.
    show(from, to) {
      const [first, last] = host.extent(), most = Math.max((last - first) * 1.02, 1e6);
      const span = Math.min(Math.max(to - from, LEAST), most);
      const right = Math.min(Math.max((from + to) / 2 + span / 2, first + Math.min(span, (last - first) / 2 + 1000)), last + span / 2);
      Object.assign(time, { span, right, playing: null });
      changed();
    },
    pan(us) {
      const [from, to] = host.view();
      host.moveTo(from + us);
    },
    // Moves what is shown; at the end of a run that goes on it follows again.
    moveTo(from) {
      const [first, last] = host.extent(), [a, b] = host.view(), span = b - a;
      if (time.span === Infinity) return;
      const right = Math.min(Math.max(from, first - span / 2) + span, last + span / 2);
      Object.assign(time, { right: isLive() && right >= last ? null : right, playing: null });
      changed();
    },
    zoom(center, factor) {
      const [from, to] = host.view(), [, last] = host.extent();
      // Who follows keeps the newest in view.
      if (host.isFollowing() && isLive() && time.span !== Infinity) {
        time.span = Math.min(Math.max((to - from) * factor, LEAST), Math.max(last - host.extent()[0], 1e6));
        return changed();
      }
      host.show(center - (center - from) * factor, center + (to - center) * factor);
    },
    // Back to where one was before zooming: the newest, or the whole log.
    back() {
      Object.assign(time, { right: null, span: isLive() ? 1e7 : Infinity, playing: null });
      changed();
    },
    hover(us, plot) {
      if (us === null && host.pointing !== plot) return;
      host.pointed = us;
      host.pointing = us === null ? null : plot;
      dirty = true;
    },
    clock: (us, digits = 4) => `${((us - host.origin()) / 1e6).toFixed(digits)} s`,
  };

  const isOver = () => news !== null && (run.is_log ? news.share_read === 1 : news.is_over);
  const isLive = () => run !== null && !run.is_log && !news?.is_over;
  let dirty = true;
  const changed = () => {
    const whole = time.span === Infinity, live = isLive();
    for (const [i, chip] of [...by("spans").children].entries()) chip.setAttribute("aria-pressed", String(SPANS[i][1] === time.span));
    by("follow").textContent = live ? (host.isFollowing() ? "Freeze" : "Follow") : time.playing ? "Pause" : "Play";
    by("follow").setAttribute("aria-pressed", String(live ? !host.isFollowing() : Boolean(time.playing)));
    const [from, to] = host.view();
    // No more digits than can be read while they count up.
    const span = (to - from) / 1e6, digits = span >= 5 ? 1 : Math.min(4, 3 - Math.floor(Math.log10(span)));
    const text = news?.extent_us ? `${host.clock(Math.max(from, host.origin()), digits)} to ${host.clock(to, digits)}${whole ? ", everything" : ""}` : "";
    if (by("shown").textContent !== text) by("shown").textContent = text;
    dirty = true;
  };

  by("follow").addEventListener("click", () => {
    if (isLive()) time.right = host.isFollowing() ? host.view()[1] : null;
    else if (time.playing) time.playing = null;
    else play();
    changed();
  });
  const play = () => {
    const [first, last] = host.extent();
    if (time.span === Infinity) Object.assign(time, { span: Math.min(1e7, (last - first) / 2), right: null });
    if (time.right === null || time.right >= last) time.right = Math.min(first + time.span, last);
    time.playing = now();
  };
  by("spans").append(...SPANS.map(([name, span]) => button(name, () => {
    const [from, to] = host.view();
    time.span = span;
    if (!isLive() && time.right === null && span !== Infinity) time.right = Math.min(host.extent()[1], from + span);
    if (span === Infinity) time.right = null;
    changed();
  })));
  // What sticks below the top needs to know how high that is.
  new ResizeObserver(() => document.body.style.setProperty("--top", `${by("top").offsetHeight}px`)).observe(by("top"));
  const overview = new Overview(host, by("overview"));

  // ---- what the history lacks -----------------------------------------------------------------------------------

  let plots = [];
  const isShown = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const plot = plots.find((plot) => plot.figure === target);
      if (plot) plot.visible = isIntersecting;
    }
    dirty = true;
  }, { rootMargin: "200px" });

  const screenBuckets = () => {
    const widest = plots.reduce((most, plot) => plot.visible ? Math.max(most, sizeOf(plot.canvas).width) : most, 300);
    return Math.min(2000, widest * (window.devicePixelRatio || 1));
  };

  // Signals that the figures at the top and the attitude need.
  let always = [];
  const windows = new Map();
  let nextWindow = 1;

  const wanted = () => {
    const signals = new Set(always);
    for (const plot of plots) if (plot.visible) for (const line of plot.lines) signals.add(line.signal);
    return signals;
  };

  // Asks for what is missing, the same stretch of all signals together.
  const askWindows = () => {
    if (!news?.extent_us || windows.size >= 2) return;
    const [from, to] = host.view(), level = host.level(), size = 2 ** level;
    const last = Math.floor(news.extent_us[1] / size) + 1, first = Math.floor(news.extent_us[0] / size);
    const groups = new Map();
    const note = (level, signal, a, b) => {
      const missing = b > a ? host.history.line(level, signal).missing(a, b) : null;
      if (!missing) return;
      const key = [level, ...missing].join();
      if (!groups.has(key)) groups.set(key, { level, from: missing[0], count: missing[1], signals: [] });
      groups.get(key).signals.push(signal);
    };
    const a = Math.max(Math.floor(from / size) - 2, first), b = Math.min(Math.ceil(to / size) + 2, last);
    for (const signal of wanted()) note(level, signal, a, b);
    noteOverview(note);
    const asking = new Set([...windows.values()].map(({ level, signals }) => `${level}.${signals[0]}`));
    for (const group of [...groups.values()].sort((a, b) => b.signals.length - a.signals.length)) {
      if (windows.size >= 2) return;
      if (asking.has(`${group.level}.${group.signals[0]}`)) continue;
      askWindow(group);
    }
  };

  let overviewAt = 0;
  const noteOverview = (note) => {
    if (overview.signal === null || now() - overviewAt < 500) return;
    const [first, last] = news.extent_us, size = 2 ** overview.level;
    note(overview.level, overview.signal, Math.floor(first / size), Math.floor(last / size) + 1);
    overviewAt = now();
  };

  const askWindow = ({ level, from, count, signals }) => {
    const some = signals.slice(0, run.most_signals), most = Math.min(run.most_buckets, count);
    const id = nextWindow++;
    const size = 2 ** level, margin = run.is_log && news.share_read < 1 ? 2e6 : 0;
    const final = run.is_log && news.share_read === 1 ? Infinity : Math.floor((news.extent_us[1] - margin) / size);
    windows.set(id, { level, signals: some, final, at: now() });
    send({ ask: "window", id, level, from, count: most, signals: some });
  };

  // A window as it comes; crates/view/src/page.rs says what it looks like.
  const take = (buffer) => {
    const head = new DataView(buffer), id = head.getUint32(0, true), question = windows.get(id);
    windows.delete(id);
    if (!question) return;
    const from = head.getFloat64(8, true), count = head.getUint32(16, true), signals = head.getUint32(20, true);
    const final = head.getUint32(24, true) ? question.final : from;
    const values = new Float32Array(buffer, 32);
    for (let i = 0; i < signals; i++) {
      const start = 2 * i * count;
      const line = host.history.line(question.level, question.signals[i]);
      line.put(from, values.subarray(start, start + count), values.subarray(start + count, start + 2 * count), final);
    }
    dirty = true;
  };

  // ---- the run --------------------------------------------------------------------------------------------------

  let signalOf = new Map(), session = null;
  const begin = (message) => {
    const isNew = session !== message.signature.split(".")[0];
    session = message.signature.split(".")[0];
    run = message;
    signalOf = new Map();
    message.signals.forEach((signal, id) => { if (signal.is_current) signalOf.set(signal.name, { ...signal, id }); });
    if (isNew) {
      host.history = new History();
      windows.clear();
      for (const list of Object.keys(lists)) { lists[list] = []; seen[list] = 0; }
      Object.assign(time, { span: message.is_log ? Infinity : 1e7, right: null, playing: null });
      news = null;
    }
    by("name").textContent = message.robot?.name || (message.is_log ? "Log" : "Kilohertz");
    document.title = `${message.robot?.name ?? "Kilohertz"}${message.is_log ? " (log)" : ""}`;
    build();
    changed();
  };

  const take_news = (message) => {
    const moved = news?.extent_us?.[1] !== message.extent_us?.[1];
    const shrank = news && ["events", "late", "changes"].some((list) => message[list].count < seen[list]);
    news = message;
    newsAt = now();
    if (!run || message.signature !== run.signature || shrank) ask("run");
    for (const list of Object.keys(lists)) {
      seen[list] = message[list].next;
      if (!message[list].entries.length) continue;
      lists[list].push(...message[list].entries);
      lists[list].splice(0, lists[list].length - 1000);
      listed(list);
    }
    if (moved && time.right === null) changed();
    showTop();
    showCommands();
    showParameters();
    drive.show();
  };

  // What few look at is written four times a second.
  let slowAt = 0;
  const PHASES = { active: "good", armed: "note", idle: "note", init: "note", damping: "warning", stopped: "note", fault: "bad" };

  const showTop = () => {
    const { phase, rate_hz: rate, verdict } = news;
    const text = run?.is_log ? "log" : news.is_over ? "ended" : phase ?? "no ticks";
    const level = news.is_over && phase !== "fault" ? "note" : PHASES[phase] ?? "note";
    if (by("phase").textContent !== text) by("phase").textContent = text;
    by("phase").className = `badge ${run?.is_log ? "note" : level}`;
    by("rate").textContent = rate && isLive() ? `${rate.toFixed(rate < 100 ? 2 : 1)} Hz` : "";
    by("verdict").className = verdict.level;
    if (by("verdict").textContent !== verdict.text) by("verdict").textContent = by("verdict").title = verdict.text;
    if (now() - slowAt > 250) { slowAt = now(); showFigures(); showLosses(); }
  };

  // Sends it away at once when what is shown may be old.
  const showAge = () => {
    if (now() > noticeUntil) by("notice").hidden = true;
    const silent = [...asked.values()].reduce((oldest, at) => Math.max(oldest, now() - at), 0);
    let text = "";
    const old = newsAt === null ? "" : `: what is shown is ${((now() - newsAt) / 1000).toFixed(0)} s old`;
    if (!isOpen()) text = newsAt === null ? "" : `No connection${old}`;
    else if (silent > PATIENCE && !document.hidden) text = `The viewer does not answer${old}`;
    else if (isLive() && news?.age_ms > SILENCE) text = `No data from the robot for ${(news.age_ms / 1000).toFixed(1)} s`;
    by("lost").hidden = text === "";
    if (by("lost").textContent !== text) by("lost").textContent = text;
    document.body.classList.toggle("stale", text !== "");
  };

  // ---- figures --------------------------------------------------------------------------------------------------

  let figures = null;
  const figure = (label, value, level = "") => ({ label, value, level });

  const showFigures = () => {
    if (!figures) return;
    const { counts } = news, count = (label, number, bad = "warning") => figure(label, grouped(number), number ? bad : "good");
    const last = host.extent()[1], level = host.level();
    const all = [];
    if (counts.ticks) {
      all.push(count("late ticks", news.late.count));
      for (const { key, label, count: number } of counts.shown) {
        // A record without the field says nothing of it.
        if (key !== "missed_replies" || signalOf.has("tick.missed")) all.push(count(label, number));
      }
      all.push(figure("ticks", grouped(counts.ticks)));
    }
    const extreme = (suffix, worst, unit, digits) => {
      const names = [...signalOf.keys()].filter((name) => name.startsWith("servo.") && name.endsWith(suffix));
      const values = names.map((name) => [host.history.valueAt(signalOf.get(name).id, last, level), name.slice(6, -suffix.length)]);
      const known = values.filter(([value]) => Number.isFinite(value)).sort((a, b) => worst * (b[0] - a[0]));
      // Its place is kept until there is a value: nothing moves under the mouse.
      const [value, joint] = known[0] ?? [NaN, ""];
      if (names.length) all.push(figure(`${worst > 0 ? "hottest" : "lowest"} now${joint && ": "}${joint}`, known.length ? `${value.toFixed(digits)} ${unit}` : "–"));
    };
    extreme(".temperature", 1, "°C", 0);
    extreme(".voltage", -1, "V", 1);
    while (figures.children.length > all.length) figures.lastChild.remove();
    all.forEach(({ label, value, level }, i) => {
      if (!figures.children[i]) { const tile = element("div"); tile.append(element("span"), element("strong")); figures.append(tile); }
      const tile = figures.children[i];
      if (tile.className !== level) tile.className = level;
      if (tile.firstChild.textContent !== label) tile.firstChild.textContent = label;
      if (tile.lastChild.textContent !== value) tile.lastChild.textContent = value;
    });
  };

  // ---- sections -------------------------------------------------------------------------------------------------

  const section = (title, id, parent = by("main")) => {
    const made = element("section");
    made.id = id;
    const head = element("div", "head");
    head.append(element("h2", "", title));
    made.append(head);
    parent.append(made);
    return made;
  };

  const line = (name, signal, colour, stroke = "solid") => ({ name, signal, colour, stroke });
  // Which line is which, once for all plots of a section.
  const legend = (lines) => lines.map(([name, signal, colour, stroke]) => keyOf(line(name, signal, colour, stroke)));
  const plotsOf = new Map();

  // Replaces the plots of a place.
  const place = (grid, specs) => {
    for (const plot of plotsOf.get(grid) ?? []) isShown.unobserve(plot.figure);
    const made = specs.map((spec) => new LivePlot(host, spec));
    plotsOf.set(grid, made);
    grid.replaceChildren(...made.map((plot) => plot.figure));
    plots = [...plotsOf.values()].flat();
    made.forEach((plot) => isShown.observe(plot.figure));
    dirty = true;
  };

  const signals = (pairs) => pairs.flatMap(([name, path], i) => signalOf.has(path) ? [line(name, signalOf.get(path).id, i % 8)] : []);

  const build = () => {
    plots = [];
    plotsOf.clear();
    by("main").replaceChildren();
    figures = element("div", "figures");
    const hands = element("div");
    hands.id = "hands";
    const since = element("p", "hint", run.is_log ? "Counts of the whole log." : "Counts since the start of the run. The sentence above and the rate are of the last 10 s.");
    since.id = "since";
    by("main").append(since, figures, hands);
    always = [];
    buildDrive();
    if (!run.is_log) buildParameters(hands);
    buildRobot();
    buildServos();
    buildTiming();
    buildImu();
    buildLists();
    // Of a log they are only what they were in the end.
    if (run.is_log) buildParameters(by("main"));
    buildMore();
    always = [...new Set(always)];
    for (const [name, { id }] of signalOf) if (/^servo\..*\.(temperature|voltage)$/.test(name)) always.push(id);
    always = always.slice(0, 192);
    const first = [...signalOf.values()].find(({ kind }) => kind === "number");
    overview.signal = (signalOf.get("tick.wake_latency_ns") ?? first)?.id ?? null;
    isShown.observe(by("overview"));
  };

  const buildTiming = () => {
    const parts = signals([
      ["encode", "tick.encode_ns"], ["send", "tick.send_ns"], ["bus", "tick.collect_ns"], ["controller", "tick.control_ns"],
      ["decide", "tick.decide_ns"], ["record", "tick.record_ns"], ["whole cycle", "tick.cycle_ns"],
    ]);
    const wake = signals([["wake latency", "tick.wake_latency_ns"]]);
    if (!parts.length && !wake.length) return;
    const made = section("Timing", "timing"), grid = element("div", "wide");
    made.append(element("p", "hint", "Each column of pixels shows the least and the greatest value within it. Red marks below: late ticks."), grid);
    place(grid, [
      { title: "Where a tick goes", unit: "ns", lines: parts, zero: true },
      { title: "Wake latency", unit: "ns", lines: wake, zero: true },
    ].filter(({ lines }) => lines.length));
  };

  // ---- servos

  const QUANTITIES = {
    position: { unit: "rad", of: (joint) => [["measured", `servo.${joint}.position`, 0], ["command", `command.${joint}.position`, 1, "dashed"]] },
    targets: { unit: "rad", of: (joint) => [["reference", `aim.${joint}.reference`, 0], ["target", `aim.${joint}.target`, 1, "dashed"], ["offset", `aim.${joint}.offset`, 3]] },
    policy: { unit: "", of: (joint) => [["what it says", `decision.action.${joint}`, 0]] },
    error: { unit: "rad", of: (joint) => [["command − measured", `error.${joint}`, 3]] },
    velocity: { unit: "rad/s", of: (joint) => [["measured", `servo.${joint}.velocity`, 0], ["command", `command.${joint}.velocity`, 1, "dashed"]] },
    torque: { unit: "N·m", of: (joint) => [["measured", `servo.${joint}.torque`, 0], ["command", `command.${joint}.torque`, 1, "dashed"]] },
    temperature: { unit: "°C", of: (joint) => [["temperature", `servo.${joint}.temperature`, 7]] },
    voltage: { unit: "V", of: (joint) => [["voltage", `servo.${joint}.voltage`, 4]] },
    "reply age": { unit: "us", of: (joint) => [["age", `servo.${joint}.age_us`, 2]] },
  };
  const chosen = { quantity: "position", hidden: new Set() };

  // ---- the robot as its joints hold it

  let robot = null;
  const buildRobot = () => {
    const skeleton = Skeleton.from(run.robot?.skeleton), of = (path) => signalOf.get(path)?.id;
    robot = null;
    if (!skeleton || !skeleton.servos.every((joint) => of(`servo.${joint}.position`) !== undefined)) return;
    const joints = new Map(skeleton.servos.map((joint) => [joint, [`servo.${joint}.position`, `command.${joint}.position`].map(of)]));
    const quaternion = [0, 1, 2, 3].map((i) => of(`imu.attitude.${i}`));
    robot = { skeleton, joints, quaternion: quaternion.every((id) => id !== undefined) ? quaternion : null };
    skeleton.changed = () => { dirty = true; };
    always.push(...[...joints.values()].flat().filter((id) => id !== undefined), ...(robot.quaternion ?? []));
    const made = section("Robot", "robot"), box = element("div", "robot");
    box.append(skeleton.canvas);
    made.firstChild.append(...legend([["measured", "", 0], ["command", "", 1, "dashed"]]), element("span", "hint", "at the pointer's time, else the newest; drag to turn"));
    made.append(box);
    isShown.observe(skeleton.canvas);
  };

  const drawRobot = () => {
    if (!robot) return;
    const at = host.pointed ?? host.view()[1], level = host.level();
    const value = (id) => id === undefined ? NaN : host.history.valueAt(id, at, level);
    const [measured, commanded] = [0, 1].map((which) => (joint) => value(robot.joints.get(joint)[which]));
    robot.skeleton.draw(measured, commanded, robot.quaternion?.map(value));
  };

  const buildServos = () => {
    const joints = [...new Set([...signalOf.keys()].map((name) => /^servo\.(.+)\.position$/s.exec(name)?.[1]).filter((joint) => joint !== undefined))];
    if (!joints.length) return;
    const made = section("Servos", "servos"), grid = element("div", "grid"), quantities = element("div", "chips"), chips = element("div", "chips");
    const keys = element("div", "keys");
    const fill = () => {
      const { unit, of } = QUANTITIES[chosen.quantity];
      keys.replaceChildren(...legend(of(joints[0]).filter(([, path]) => signalOf.has(path))));
      for (const chip of quantities.children) chip.setAttribute("aria-pressed", String(chip.textContent === chosen.quantity));
      for (const chip of chips.children) if (chip.dataset.joint !== undefined) chip.setAttribute("aria-pressed", String(!chosen.hidden.has(chip.dataset.joint)));
      place(grid, joints.filter((joint) => !chosen.hidden.has(joint)).map((joint) => ({
        title: joint,
        unit,
        keyed: false,
        lines: of(joint).flatMap(([name, path, colour, stroke]) => signalOf.has(path) ? [line(name, signalOf.get(path).id, colour, stroke)] : []),
      })));
    };
    const available = Object.entries(QUANTITIES).filter(([, { of }]) => joints.some((joint) => signalOf.has(of(joint)[0][1])));
    quantities.append(...available.map(([name]) => button(name, () => { chosen.quantity = name; fill(); })));
    if (joints.length > 1) {
      for (const joint of joints) {
        const chip = button(joint, () => { if (!chosen.hidden.delete(joint)) chosen.hidden.add(joint); fill(); });
        chip.dataset.joint = joint;
        chips.append(chip);
      }
      chips.append(button("all", () => { chosen.hidden.clear(); fill(); }), button("none", () => { joints.forEach((joint) => chosen.hidden.add(joint)); fill(); }));
    }
    const joint_details = element("details");
    joint_details.append(element("summary", "", "joints"), chips);
    joint_details.open = joints.length <= 4 && joints.length > 1;
    made.firstChild.append(quantities, keys);
    if (joints.length > 1) made.append(joint_details);
    made.append(grid);
    fill();
  };

  // ---- IMU

  let attitude = null;
  const buildImu = () => {
    const quaternion = [0, 1, 2, 3].map((i) => signalOf.get(`imu.attitude.${i}`)?.id);
    const xyz = (record) => signals(["x", "y", "z"].map((axis, i) => [axis, `imu.${record}.${i}`]));
    attitude = null;
    const specs = [{ title: "rate", unit: "rad/s", lines: xyz("rate") }, { title: "acceleration", unit: "m/s²", lines: xyz("acceleration") }].filter(({ lines }) => lines.length);
    // The robot that is drawn lies as the IMU says.
    const knows = !robot?.skeleton.shape.floats && quaternion.every((id) => id !== undefined);
    if (!knows && !specs.length) return;
    const made = section("IMU", "imu"), all = element("div", "wide"), grid = element("div", "inside");
    if (knows) {
      const figure = element("figure"), box = element("div");
      box.id = "attitude";
      const canvas = element("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", "attitude of the body");
      box.append(canvas);
      const caption = element("figcaption");
      caption.append(element("b", "", "attitude"), element("span", "", "orange: front"));
      figure.append(caption, box);
      all.append(figure);
      attitude = { canvas, quaternion };
      always.push(...quaternion);
    }
    all.append(grid);
    made.append(all);
    place(grid, specs);
  };

  // ---- lists

  const tables = {};
  const table = (parent, title, id, headings) => {
    const box = element("section");
    box.id = id;
    const head = element("div", "head"), count = element("span", "hint");
    head.append(element("h2", "", title), count);
    const frame = element("div", "table"), made = element("table"), row = element("tr"), body = element("tbody");
    row.append(...headings.map(([name, kind]) => element("th", kind, name)));
    const thead = element("thead");
    thead.append(row);
    made.append(thead, body);
    frame.append(made);
    box.append(head, frame);
    parent.append(box);
    return { body, count, box };
  };
  const cells = (row, texts) => row.append(...texts.map(([text, kind]) => element("td", kind ?? "", text)));

  const buildLists = () => {
    const made = element("div", "two");
    by("main").append(made);
    tables.late = table(made, "Late ticks", "late", [["time", "n"], ["tick", "n"], ["response", "n"], ["more than usual", "n"], ["cause", ""]]);
    tables.events = table(made, "Events", "events", [["time", "n"], ["tick", "n"], ["phase", ""], ["cause", ""]]);
    tables.changes = table(made, "Parameter changes", "changes", [["time", "n"], ["tick", "n"], ["parameter", ""], ["value", "n"], ["by", ""]]);
    // Each has its room from the start, even if nothing comes.
    tables.late.box.hidden = !signalOf.has("tick.wake_latency_ns");
    tables.events.box.hidden = !run.records.includes("event");
    tables.changes.box.hidden = !run.parameters.length;
    for (const list of Object.keys(lists)) {
      tables[list].box.addEventListener("pointerleave", () => { if (tables[list].waits) listed(list); });
      listed(list);
    }
  };

  const ROWS = {
    late: (late) => [[host.clock(late.at_us), "n"], [grouped(late.tick), "n"], [spoken(late.response_ns, "ns", 3), "n"], [spoken(late.excess_ns, "ns", 3), "n"],
      [`${late.cause}${late.is_overrun ? ", overrun" : ""}`]],
    events: (event) => [[host.clock(event.at_us), "n"], [grouped(event.tick), "n"], [event.from === event.to ? event.to : `${event.from} → ${event.to}`, event.is_trouble ? "bad" : ""],
      [event.cause + (event.servo ? ` (${event.servo})` : "")]],
    changes: (change) => [[host.clock(change.at_us), "n"], [grouped(change.tick), "n"], [change.name], [`${trimmed(change.before, 6)} → ${trimmed(change.value, 6)}`, "n"], [change.by]],
  };
  const MOST_ROWS = 100;

  // Marks in the plots, and rows of a table, the newest first.
  const listed = (list) => {
    host.late = lists.late.map((late) => ({ x: late.at_us, level: "bad", label: `tick ${late.tick} was ${spoken(late.excess_ns, "ns", 3)} late: ${late.cause}` }));
    host.marks = [
      ...lists.events.map((event) => ({ x: event.at_us, level: event.is_trouble ? "bad" : "note", label: `${event.from} → ${event.to}: ${event.cause}` })),
      ...lists.changes.map((change) => ({ x: change.at_us, level: "warning", label: `${change.name} = ${trimmed(change.value, 6)}` })),
    ];
    const shown = tables[list];
    if (!shown) return;
    const count = news?.[list]?.count ?? lists[list].length;
    shown.count.textContent = !count ? "none" : `${grouped(count)}${count > MOST_ROWS ? `; the last ${MOST_ROWS} are here` : ""}`;
    // Rows do not move under the mouse.
    if (shown.box.matches(":hover") && shown.body.children.length) { shown.waits = true; return; }
    shown.waits = false;
    shown.body.replaceChildren(...lists[list].slice(-MOST_ROWS).reverse().map((entry) => {
      const row = element("tr");
      cells(row, ROWS[list](entry));
      row.addEventListener("click", () => host.show(entry.at_us - 50e3, entry.at_us + 50e3));
      return row;
    }));
  };

  // ---- parameters

  const parameters = new Map();
  const buildParameters = (parent) => {
    parameters.clear();
    if (!run.parameters.length) return;
    const made = section("Parameters", "parameters", parent), grid = element("div", "params");
    made.firstChild.append(element("span", "hint", "a change is a dotted line in all plots"));
    made.append(grid);
    for (const parameter of run.parameters) grid.append(control(parameter));
  };

  const control = (parameter) => {
    const { name, kind, unit, min, max, text } = parameter, box = element("div", "param"), top = element("div", "line"), bottom = element("div", "line");
    const inForce = element("strong"), refused = element("p", "refused"), label = element("label", "", name);
    const truth = kind === "boolean", whole = kind === "integer";
    const field = element("input"), slider = element("input");
    field.type = truth ? "checkbox" : "number";
    field.id = `parameter.${name}`;
    label.htmlFor = field.id;
    const ranged = !truth && Number.isFinite(min) && Number.isFinite(max) && min < max;
    if (!truth) field.step = "any";
    if (ranged) {
      slider.type = "range";
      slider.setAttribute("aria-label", name);
      Object.assign(slider, { min, max, step: whole ? 1 : (max - min) / 400 });
    }
    let last = 0, later = 0, waiting = 0;
    const set = (value, now_us = news?.now_us ?? 0) => {
      clearTimeout(later);
      last = now();
      waiting++;
      refused.textContent = "";
      request("set", { ask: "set", now_us, values: { [name]: value } }, (message) => {
        waiting--;
        if (!message.refused) return;
        refused.textContent = message.refused;
        put(news?.parameters[name]);
      });
    };
    // A slider that is moved sets ten times a second, and where it was let go.
    const follow = (value) => {
      clearTimeout(later);
      const wait = 100 - (now() - last);
      // What waits in a page that is frozen does not become younger.
      const now_us = news?.now_us ?? 0;
      if (wait <= 0) set(value, now_us); else later = setTimeout(() => set(value, now_us), wait);
    };
    slider.addEventListener("input", () => { if (!truth) field.value = slider.value; follow(Number(slider.value)); });
    field.addEventListener("change", () => {
      if (truth) return set(field.checked);
      const value = Number(field.value);
      if (field.value.trim() === "" || !Number.isFinite(value)) { refused.textContent = "not a number"; return; }
      set(value);
    });
    top.append(label, inForce);
    if (unit) top.append(element("span", "hint", unit));
    if (ranged) bottom.append(slider);
    bottom.append(field, button("default", () => set(parameter.default)));
    const range = truth ? "" : ` Range ${Number.isFinite(min) ? trimmed(min, 6) : "−∞"} to ${Number.isFinite(max) ? trimmed(max, 6) : "∞"}, default ${trimmed(parameter.default ?? NaN, 6)}.`;
    const about = text && !/[.!?]$/.test(text) ? `${text}.` : text;
    box.append(top, bottom, element("p", "", (about + range).trim()), refused);
    const inputs = [field, slider];
    // What is being typed, or held, is left alone.
    let typing = false, held = false;
    field.addEventListener("input", () => { typing = !truth; });
    for (const end of ["change", "blur"]) field.addEventListener(end, () => { typing = false; });
    slider.addEventListener("pointerdown", () => { held = true; });
    for (const end of ["pointerup", "pointercancel", "blur"]) slider.addEventListener(end, () => { held = false; });
    const put = (value) => {
      if (value === null || value === undefined) return;
      if (truth) { field.checked = Boolean(value); return; }
      if (!typing) field.value = String(+value.toPrecision(7));
      if (ranged && !held) slider.value = String(value);
    };
    parameters.set(name, (value) => {
      inForce.textContent = value === null || value === undefined ? "–" : truth ? (value ? "on" : "off") : trimmed(value, 6);
      const can = Boolean(news.is_controllable);
      for (const input of [...inputs, box.querySelector("button")]) if (input.disabled === can) input.disabled = !can;
      if (!waiting) put(value);
    });
    // What was typed and is not in force is not left to look as if it were.
    field.addEventListener("blur", showParameters);
    return box;
  };

  const showParameters = () => { if (news) for (const [name, show] of parameters) show(news.parameters[name]); };

  // ---- driving

  const AXES = ["forward", "left", "turn", "height", "roll", "pitch"];
  // How often the stick is sent, ms, and how often its middle when it was let go.
  const EVERY = 50, ZEROS = 3;

  const drive = {
    available: false,
    // What each hand says: pads, keys, gamepad. Nothing: it holds nothing.
    hands: new Map(),
    pose: { height: 0, roll: 0, pitch: 0 },
    full: { forward: 0.3, turn: 0.8 },
    zeros: 0,
    // When the first hand took hold.
    since: 0,
    hold(hand, value) {
      if (!drive.available || news?.is_over) return;
      if (!drive.hands.size) drive.since = now();
      drive.hands.set(hand, value);
      drive.show();
    },
    letGo(hand) {
      if (!drive.hands.delete(hand)) return;
      if (!drive.hands.size) drive.zeros = ZEROS;
      drive.show();
    },
    // All hands off, as when the page is not seen any more.
    release() {
      const held = drive.hands.size > 0;
      drive.hands.clear();
      drive.keys?.clear();
      drive.padsUp?.();
      if (held) for (drive.zeros = ZEROS; news && drive.zeros > 0;) drive.send();
      drive.show();
    },
    // What all hands say together, each axis from -1 to 1.
    sum() {
      const sum = { forward: 0, left: 0, turn: 0 };
      for (const value of drive.hands.values()) for (const axis of Object.keys(sum)) sum[axis] += value[axis] ?? 0;
      for (const axis of Object.keys(sum)) sum[axis] = Math.max(-1, Math.min(1, sum[axis]));
      return sum;
    },
    teleop() {
      const { forward, left, turn } = drive.sum(), { full } = drive;
      return { forward: forward * full.forward, left: left * full.forward, turn: turn * full.turn, ...drive.pose };
    },
    send() {
      if (!news) return;
      const still = drive.hands.size === 0;
      if (still) drive.zeros--;
      const teleop = still ? Object.fromEntries(AXES.map((axis) => [axis, drive.pose[axis] ?? 0])) : drive.teleop();
      // The newest time of the viewer that this page knows: an input is at least as old as what its operator sees.
      send({ ask: "steer", now_us: news.now_us, teleop });
    },
    show: () => {},
  };
  setInterval(() => {
    pollGamepad();
    if (drive.hands.size || drive.zeros > 0) { drive.send(); askNews(); }
  }, EVERY);

  const pad = (name, flat, text, toValue) => {
    const made = element("div", flat ? "pad flat" : "pad"), knob = element("b");
    made.append(knob, element("span", "", text));
    made.setAttribute("role", "application");
    made.setAttribute("aria-label", `${name}: ${text}`);
    let finger = null;
    const move = (event) => {
      const box = made.getBoundingClientRect(), reach = box.width / 2 - 20;
      let x = (event.clientX - box.left - box.width / 2) / reach, y = flat ? 0 : (event.clientY - box.top - box.height / 2) / reach;
      const length = Math.hypot(x, y);
      if (length > 1) { x /= length; y /= length; }
      drive.hold(name, toValue(x, y));
    };
    // The stick stands where all hands together have it: keys and gamepad move it, too.
    const put = (x, y) => {
      const reach = made.offsetWidth / 2 - 20, length = Math.max(1, Math.hypot(x, y));
      knob.style.transform = x || y ? `translate(${x / length * reach}px, ${y / length * reach}px)` : "";
    };
    const up = () => { finger = null; made.classList.remove("held"); };
    made.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      finger = event.pointerId;
      made.setPointerCapture(finger);
      made.classList.add("held");
      move(event);
    });
    made.addEventListener("pointermove", (event) => { if (event.pointerId === finger) move(event); });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"])
      made.addEventListener(end, (event) => { if (event.pointerId === finger) { up(); drive.letGo(name); } });
    return { made, up, put };
  };

  // An input that the robot has taken within so long is in force, ms; one takes a while there and back.
  const TAKEN = 1000;
  const pace = ({ forward, left, turn }) => {
    const n = (value) => value.toFixed(2).replace("-", "−");
    return `${n(forward)} m/s forward, ${n(left)} m/s left, ${n(turn)} rad/s`;
  };
  // Who drives, by what the robot reports as taken.
  const drivingText = () => {
    // As old as the news that it came with.
    const taken = news?.steered?.age_ms + (now() - newsAt) < TAKEN ? news.steered : null;
    // Through a fleet a name goes on with the way it came.
    const mine = taken !== null && `${taken.by} `.startsWith(`${news.you} `);
    if (news?.is_over) return "the run has ended";
    if (!drive.hands.size) return taken && !mine ? `driven by ${taken.by}: ${pace(taken)}` : "nothing is held";
    if (mine && run.records.includes("stage")) return "heard: it moves the joints that [targets.sticks] names, and no other";
    if (mine) return `driving: ${pace(taken)}`;
    if (now() - drive.since < TAKEN) return `asking for ${pace(drive.teleop())}`;
    return taken ? `not driving: ${taken.by} drives` : "NOT DRIVING: the robot takes none of your inputs. They reach it too late, or it is not steered.";
  };

  const buildDrive = () => {
    drive.available = run.records.includes("teleop") && !run.is_log;
    drive.release();
    if (!drive.available) return;
    const made = section("Drive", "drive", by("hands")), box = element("div", "drive");
    const walk = pad("walk", false, "forward, sideways", (x, y) => ({ forward: -y, left: -x }));
    const turn = pad("turn", true, "turn", (x) => ({ turn: -x }));
    const sliders = element("div", "sliders"), more = element("details");
    more.append(element("summary", "", "speed and pose"), sliders);
    more.open = innerWidth > 640 && innerWidth < 1120;
    const slider = (label, unit, min, max, value, does) => {
      const row = element("label", "", label), input = element("input"), output = element("output");
      Object.assign(input, { type: "range", min, max, step: (max - min) / 100, value });
      const show = () => { output.textContent = `${Number(input.value).toFixed(2).replace("-", "−")} ${unit}`; does(Number(input.value)); };
      input.addEventListener("input", show);
      show();
      row.append(input, output);
      return row;
    };
    const { full, pose } = drive;
    sliders.append(
      slider("full speed", "m/s", 0.05, 1.5, full.forward, (value) => { full.forward = value; }),
      slider("full turn", "rad/s", 0.1, 3, full.turn, (value) => { full.turn = value; }),
      slider("height", "m", -0.1, 0.1, pose.height, (value) => { pose.height = value; }),
      slider("roll", "rad", -0.4, 0.4, pose.roll, (value) => { pose.roll = value; }),
      slider("pitch", "rad", -0.4, 0.4, pose.pitch, (value) => { pose.pitch = value; }),
    );
    const state = element("p", "hint");
    state.id = "driving";
    box.append(walk.made, more, turn.made);
    made.append(state, box, element("p", "hint", "Or keys W, A, S, D, and Q, E to turn; or a gamepad. Sent only while you hold, with height, roll and pitch. Only controllers that read it move by it, such as walk."));
    drive.padsUp = () => { walk.up(); turn.up(); };
    drive.show = () => {
      const text = drivingText();
      if (state.textContent !== text) state.textContent = text;
      const { forward, left, turn: by } = drive.sum();
      walk.put(-left, -forward);
      turn.put(-by, 0);
      made.classList.toggle("over", Boolean(news?.is_over));
    };
    drive.show();
  };

  const KEYS = { KeyW: { forward: 1 }, KeyS: { forward: -1 }, KeyA: { left: 1 }, KeyD: { left: -1 }, KeyQ: { turn: 1 }, KeyE: { turn: -1 } };
  drive.keys = new Set();
  const keysChanged = () => {
    const value = {};
    for (const key of drive.keys) for (const [axis, by] of Object.entries(KEYS[key])) value[axis] = (value[axis] ?? 0) + by;
    if (drive.keys.size) drive.hold("keys", value); else drive.letGo("keys");
  };
  addEventListener("keydown", (event) => {
    // While one of these is down, some systems do not say that another key went up.
    if (["Meta", "Control", "Alt"].includes(event.key)) drive.release();
    if (!(event.code in KEYS) || !drive.available || isTyping(event.target) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (!event.repeat) { drive.keys.add(event.code); keysChanged(); }
  });
  addEventListener("keyup", (event) => { if (drive.keys.delete(event.code)) keysChanged(); });
  // Keys that go up elsewhere, and a hidden tab, must not drive.
  addEventListener("blur", () => drive.release());
  addEventListener("pagehide", () => drive.release());
  document.addEventListener("visibilitychange", () => { if (document.hidden) drive.release(); });

  // Below this a stick is at rest.
  const DEAD = 0.15;
  // Which gamepad has been seen at rest: one that begins with a stick off its middle, or rests elsewhere, must not drive.
  let rested = null;
  const pollGamepad = () => {
    if (!drive.available || document.hidden || !document.hasFocus()) return drive.letGo("gamepad");
    // Of others it is unknown which axis is which; a trigger at rest is a stick pushed to its end.
    const found = [...(navigator.getGamepads?.() ?? [])].find((gamepad) => gamepad?.connected && gamepad.mapping === "standard");
    const axis = (i) => { const value = found?.axes[i] ?? 0; return Math.abs(value) < DEAD ? 0 : -value; };
    const value = { left: axis(0), forward: axis(1), turn: axis(2) };
    const moved = Object.values(value).some((part) => part !== 0);
    if (!found || !moved) rested = found?.id ?? null;
    if (moved && found.id === rested) drive.hold("gamepad", value); else drive.letGo("gamepad");
  };

  // ---- any other signal

  const added = [];
  const buildMore = () => {
    const all = [...signalOf.values()];
    if (!all.length) return;
    const made = section("Any signal", "any"), search = element("input"), found = element("div", "chips"), grid = element("div", "wide");
    search.id = "search";
    search.type = "search";
    search.placeholder = `search ${grouped(all.length)} signals`;
    search.setAttribute("aria-label", "search the signals");
    const fill = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const hits = words.length ? all.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word))) : [];
      found.replaceChildren(...hits.slice(0, 40).map(({ name }) => button(name, () => { if (!added.includes(name)) added.unshift(name); show(); })));
      if (hits.length > 40) found.append(element("span", "hint", `and ${hits.length - 40} more`));
    };
    const show = () => place(grid, added.filter((name) => signalOf.has(name)).map((name) => {
      const { id, unit, kind, names } = signalOf.get(name);
      return {
        title: name, unit: unit ?? "", lines: [line("value", id, 0)], names: kind === "choice" ? new Map(names) : null,
        onClose: () => { added.splice(added.indexOf(name), 1); show(); },
      };
    }));
    search.addEventListener("input", fill);
    made.append(search, found, grid);
    // A log of something else: its first signals, so that something is to be seen.
    if (!added.length && !signalOf.has("tick.wake_latency_ns") && ![...signalOf.keys()].some((name) => name.startsWith("servo.")))
      added.push(...all.filter(({ kind }) => kind === "number").slice(0, 6).map(({ name }) => name));
    show();
    if (run.robot?.file) {
      const file = element("details");
      file.append(element("summary", "", "Robot file"), element("pre", "", run.robot.file));
      made.append(file);
    }
  };

  // ---- what was lost

  let figuresAt = now(), rates = "";
  const showLosses = () => {
    const { losses, share_read: share } = news, texts = [];
    const some = (count, one, many) => { if (count) texts.push(`${grouped(count)} ${count === 1 ? one : many}`); };
    some(losses.datagrams, "datagram from the robot was lost", "datagrams from the robot were lost");
    some(losses.early, "sample came before its schema", "samples came before their schemas");
    some(losses.refused, "message could not be read", "messages could not be read");
    some(losses.unfit, "sample does not fit its schema", "samples do not fit their schemas");
    some(losses.damaged, "damaged place in the log", "damaged places in the log");
    some(losses.clock_set, "step of the sender's clock", "steps of the sender's clock");
    some(losses.records, "record has too many numbers to show", "records have too many numbers to show");
    some(losses.messages, "message to this page was dropped", "messages to this page were dropped");
    some(news.counts.unrecorded, "tick is not in the record", "ticks are not in the record");
    if (share < 1) texts.unshift(`reading the log: ${(100 * share).toFixed(0)} %`);
    if (now() - figuresAt > 1000) {
      const s = (now() - figuresAt) / 1000;
      rates = isLive() ? `${(frames / s).toFixed(0)} frames/s, ${(received / s / 1000).toFixed(0)} kB/s` : "";
      document.body.dataset.frames = (frames / s).toFixed(1);
      [frames, received, figuresAt] = [0, 0, now()];
    }
    const text = [texts.length ? texts.join("; ") : "nothing lost", rates].filter(Boolean).join(" · ");
    if (by("foot").textContent !== text) by("foot").textContent = text;
  };

  // ---- the clockwork --------------------------------------------------------------------------------------------

  // Not more often than this, ms: about thirty times a second.
  const FRAME = 30;
  // How often to ask for news of what is over, ms.
  const NEWS_OVER = 250;
  let drawnAt = 0, inkless = true;

  const frame = () => {
    requestAnimationFrame(frame);
    if (now() - drawnAt < FRAME) return;
    const passed = now() - drawnAt;
    drawnAt = now();
    if (!run) ask("run"); else if (now() - newsAt > NEWS_OVER || !isOver()) askNews();
    if (time.playing) advance(passed);
    if (run && isOpen()) askWindows();
    if (!dirty) return;
    dirty = false;
    frames++;
    if (inkless) { readInks(); inkless = false; }
    for (const plot of plots) if (plot.visible) plot.draw();
    overview.draw();
    drawRobot();
    if (attitude) {
      const at = host.pointed ?? host.view()[1], level = host.level();
      drawAttitude(attitude.canvas, attitude.quaternion.map((id) => host.history.valueAt(id, at, level)));
    }
  };

  const advance = (ms) => {
    time.right += Math.min(ms, 200) * 1000;
    if (time.right >= host.extent()[1]) Object.assign(time, { right: host.extent()[1], playing: null });
    changed();
  };

  // Windows that were lost with a connection are asked for again.
  setInterval(() => {
    for (const [id, { at }] of windows) if (!isOpen() || now() - at > 10000) windows.delete(id);
    insist();
    showAge();
    drive.show();
  }, 100);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { inkless = dirty = true; });
  addEventListener("resize", () => { dirty = true; });
  by("stop").addEventListener("click", stop);
  by("arm").addEventListener("click", arm);
  connect();
  requestAnimationFrame(frame);
})();
