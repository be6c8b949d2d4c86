// Foxglove's own client at a live view: subscribes to everything, sets a parameter, calls services, and writes all it
// received as JSON lines. Arguments: URL, subprotocol, how many messages of /servo to wait for, file.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

// The packages are where this is run, not beside this file.
const load = createRequire(path.join(process.cwd(), "package.json"));
const { FoxgloveClient } = load("@foxglove/ws-protocol");
const { parse } = load("@foxglove/rosmsg");
const { MessageReader } = load("@foxglove/rosmsg2-serialization");
const WebSocket = load("ws");

const [url, protocol, count, file] = process.argv.slice(2);
const out = [];
const write = (kind, value) => {
  const json = (_, value) => (typeof value === "bigint" ? Number(value) : ArrayBuffer.isView(value) ? [...value] : value);
  out.push(JSON.stringify({ kind, ...value }, json));
};
const finish = (code) => {
  for (const { topic, time, data, reader } of messages) {
    write("message", { topic, time, bytes: Buffer.from(data).toString("base64"), value: reader.readMessage(data) });
  }
  fs.writeFileSync(file, out.join("\n") + "\n");
  process.exit(code);
};
setTimeout(() => finish(3), 200_000);

const client = new FoxgloveClient({ ws: new WebSocket(url, [protocol]) });
const channels = new Map();
// Decoded at the end: a client that cannot keep up asks too late, again and again.
const messages = [];
let servos = 0;
let wanted = [];
let asked = () => {};
let isLate = false;

client.on("error", (error) => {
  write("error", { message: String(error) });
  finish(2);
});
client.on("close", () => finish(0));
client.on("serverInfo", (info) => write("serverInfo", info));
// What comes too late is asked again, once the values that follow each refusal are here: on a busy computer that may be anything.
client.on("status", (status) => {
  isLate = status.message.includes("ask again");
  if (!isLate) {
    write("status", status);
  }
});
client.on("advertise", (advertised) => {
  for (const channel of advertised) {
    const reader = new MessageReader(parse(channel.schema, { ros2: true }));
    channels.set(client.subscribe(channel.id), { channel, reader });
    write("channel", channel);
  }
});
client.on("message", ({ subscriptionId, timestamp, data }) => {
  const { channel, reader } = channels.get(subscriptionId);
  const copy = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  messages.push({ topic: channel.topic, time: String(timestamp), data: copy, reader });
  servos += channel.topic === "/servo" ? 1 : 0;
  if (servos === Number(count)) {
    servos += 1;
    client.subscribeParameterUpdates(["kp_scale"]);
    set(0.5, "set");
  }
});
client.on("parameterValues", (values) => {
  if (isLate && values.id !== undefined) {
    isLate = false;
    asked();
    return;
  }
  write("parameters", values);
  if (values.id === "set") {
    set(7, "refused");
  } else if (values.id === "refused") {
    wanted = [["json", new TextEncoder().encode("{}")], ["cdr", new Uint8Array([0, 1, 0, 0, 0])]];
    call();
  }
});
client.on("serviceCallResponse", ({ encoding, data }) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const reader = () => new MessageReader(parse("bool success\nstring message\n", { ros2: true }));
  const value = encoding === "json" ? JSON.parse(new TextDecoder().decode(bytes)) : reader().readMessage(bytes);
  write("response", { encoding, value });
  call();
});

function set(value, id) {
  asked = () => client.setParameters([{ name: "kp_scale", value }], id);
  asked();
}

function call() {
  const next = wanted.shift();
  if (next !== undefined) {
    const [encoding, data] = next;
    client.sendServiceCallRequest({ serviceId: 1, callId: 1, encoding, data: new DataView(data.buffer) });
  } else {
    client.close();
  }
}
