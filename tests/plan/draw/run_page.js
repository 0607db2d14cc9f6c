// Runs the script of a plan's page in node: the page's own code, with elements that only remember what is done to
// them. node run_page.js PAGE; prints what the page says and draws as JSON.
"use strict";
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8");
const data = page.split('<script type="application/json" id="plan">')[1].split("</script>")[0];
const script = page.split("<script>")[1].split("</script>")[0];

let frames = [];
const drawn = [];
const elements = {};
function element(id) {
  const listeners = {};
  return elements[id] ||= {
    id, listeners, style: {}, dataset: {}, textContent: id === "plan" ? data : "", checked: id === "critical",
    clientWidth: 1264, clientHeight: 400, offsetWidth: 200, offsetHeight: 60,
    classList: { add() {}, remove() {}, toggle() {} },
    addEventListener(name, listener) { listeners[name] = listener; },
    append() {}, setPointerCapture() {}, getBoundingClientRect: () => ({ left: 0, top: 0 }),
    getContext: () => new Proxy({ fillRect(x, y, w, h) { drawn.push({ colour: this.fillStyle, x, y, w, h }); } },
      { get: (target, name) => name in target ? target[name] : () => {}, set: (target, name, value) => (target[name] = value, true) }),
  };
}
let resized;
const world = vm.createContext({
  document: { getElementById: element, createElement: () => element("new" + Math.random()), documentElement: element("html") },
  getComputedStyle: () => ({ getPropertyValue: name => name }),
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  ResizeObserver: class { constructor(f) { resized = f; } observe() {} },
  requestAnimationFrame: f => frames.push(f), devicePixelRatio: 1, console,
});
vm.runInContext(script, world, { filename: "page" });
const settle = () => { while (frames.length) frames.shift()(); };
const ask = code => vm.runInContext(code, world);
const send = (name, event) => { elements.canvas.listeners[name]({ preventDefault() {}, pointerId: 1, deltaMode: 0, deltaX: 0, ...event }); settle(); };
const key = name => { send("keydown", { key: name }); return element("chosen").textContent; };
const viewed = () => ask("[view.from, view.to]");
resized();
settle();

const result = {};
drawn.length = 0;
ask("drawAll()");
const paints = new Set(ask("paint.slice(0, 4).flat().map(p => p.fill)"));
result.boxes = drawn.filter(d => paints.has(d.colour)).length;
result.says = ask("ops.start.map((_, i) => describe(i))");
result.points = ask("ops.start.map((s, i) => textAt(across((s + ops.end[i]) / 2), boxTop(ops.rank[i]) + boxHeight() * (partner(i) > i ? 0.2 : 0.8)))");
result.idle = ask("textAt(across(ops.start[first[1]] / 2), boxTop(1) + 3)");
const whole = viewed();
send("wheel", { clientX: 600, clientY: 50, deltaY: -200 });
const closer = viewed();
result.zoomed = closer[1] - closer[0] < whole[1] - whole[0];
send("pointerdown", { clientX: 600, clientY: 50, type: "pointerdown" });
send("pointermove", { clientX: 500, clientY: 50 });
send("pointerup", { clientX: 500, clientY: 50, type: "pointerup" });
const moved = viewed();
result.moved = moved[0] > closer[0] && Math.abs(moved[1] - moved[0] - closer[1] + closer[0]) < 1;
key("0");
result.reset = JSON.stringify(viewed()) === JSON.stringify(whole);
result.path = [];
for (let k = 0, last; k < 100; k++) {
  const now = key("n");
  if (now === last) break;
  result.path.push(last = now);
}
key("Escape");
result.keys = [key("ArrowRight"), key("ArrowRight"), key("ArrowLeft"), key("ArrowDown")];
const before = ask("shows('bubbles')");
key("b");
result.toggled = ask("shows('bubbles')") !== before;
console.log(JSON.stringify(result));
