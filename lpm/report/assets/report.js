"use strict";
// Draws the charts of the page from the JSON in it. Text from files is only ever set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const DASH = ["", "7 4", "2 3"];
  const RAMP = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
  const $$ = (query, root = document) => [...root.querySelectorAll(query)];

  function el(name, attributes = {}, parent = null, text = null) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }
  function html(name, parent, className = "", text = "") {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text) node.textContent = text;
    parent.append(node);
    return node;
  }
  // Experiments may call a method differently: the name is that of the section.
  const label = (node, method) => data.labels[node.closest("section").id]?.[method] ?? method;
  function colour(method) {
    const { family, tint } = data.methods[method], hue = `var(--${family})`;
    return tint ? `color-mix(in oklab, ${hue}, var(${tint > 0 ? "--card" : "--ink"}) ${100 * Math.abs(tint)}%)` : hue;
  }
  function stroke(node, method) {
    node.style.stroke = colour(method);
    if (DASH[data.methods[method].dash]) node.style.strokeDasharray = DASH[data.methods[method].dash];
    return node;
  }
  function show(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replace("-", "−");
    const places = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
    return value.toLocaleString("en", { maximumFractionDigits: places }).replace("-", "−");
  }
  function short(value) {
    const size = Math.abs(value);
    for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= unit * (unit === 1e3 ? 10 : 1)) return `${+(value / unit).toPrecision(4)}${sign}`.replace("-", "−");
    if (size !== 0 && size < 1e-3) return value.toExponential(0).replace("-", "−");
    return `${+value.toPrecision(6)}`.replace("-", "−");
  }
  function ticks(low, high, count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }
  function logTicks(low, high) {
    const found = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first) / 6)), inner = last - first <= 2 ? [1, 2, 5] : [1];
    for (let k = first; k <= last; k += stride)
      for (const m of inner) if (m * 10 ** k >= low * 0.999 && m * 10 ** k <= high * 1.001) found.push(m * 10 ** k);
    return found;
  }
  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v !== null && isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    if (low > high) return null;
    if (low === high) { const pad = Math.abs(low) * 0.1 || 1; return [low - pad, high + pad]; }
    return [low, high];
  }

  // One state per section: methods in colour, hidden ones, the one that is touched, and the scale of the y axis.
  const state = new Map();
  const stateOf = (node) => {
    const section = node.closest("section");
    if (!state.has(section)) state.set(section, { focus: new Set(data.focus[section.id]), hidden: new Set(), log: false });
    return state.get(section);
  };
  // What is pointed at gets its colour in all charts of the section, without drawing them again.
  function touch(section, method) {
    for (const node of $$("[data-touched]", section)) delete node.dataset.touched;
    if (method !== null) for (const node of $$(`[data-method="${CSS.escape(method)}"]`, section)) node.dataset.touched = "";
  }
  const visible = (chart, st) => chart.series.filter((s) => !st.hidden.has(s.m));
  function range(charts, st) {
    const values = [];
    for (const chart of charts) for (const s of visible(chart, st)) for (const key of st.focus.has(s.m) ? ["y", "lo", "hi"] : ["y"])
      for (const v of s[key] || []) if (v !== null && (!st.log || v > 0)) values.push(v);
    const found = extent(values);
    return found && st.log && found[0] <= 0 ? [found[1] / 10, found[1]] : found;
  }
  function common(figure, st) {
    // Conditions share a y axis where that leaves every curve readable.
    const charts = $$("figure.chart", figure.parentNode).map((f) => data.charts[f.dataset.chart]);
    const all = range(charts, st), own = range([data.charts[figure.dataset.chart]], st);
    if (!all || !own) return own;
    const span = ([a, b]) => (st.log ? Math.log(b / a) : b - a);
    return charts.every((c) => { const r = range([c], st); return !r || span(r) > 0.3 * span(all); }) ? all : own;
  }
  const PRINTED = 350;  // half a page: on paper charts stand two in a row
  let printing = false;
  const widthOf = (figure) => Math.max(260, Math.round((printing ? (figure.closest(".charts") ? 1 : 2) * PRINTED : figure.clientWidth || PRINTED) - 30));

  function drawLines(figure, chart) {
    const st = stateOf(figure);
    const width = widthOf(figure), height = width > 520 ? 320 : 250;
    const box = { left: 50, right: width - 10, top: 10, bottom: height - 38 };
    const svg = el("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.alt });
    // grey ones below, the recommended bonus on top
    const level = (s) => (s.m === data.recommended ? 2 : st.focus.has(s.m) ? 1 : 0);
    const lines = visible(chart, st).toReversed().sort((a, b) => level(a) - level(b)), y = common(figure, st);
    const xs = extent(lines.flatMap((s) => data.steps[s.x]));
    el("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, svg, chart.x);
    if (!y || !xs) {
      const why = lines.length === 0 ? "no method selected" : st.log ? "no positive value to show on a log scale" : "no values";
      el("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, svg, why);
      return svg;
    }
    const px = (v) => box.left + ((v - xs[0]) / (xs[1] - xs[0])) * (box.right - box.left);
    const f = st.log ? Math.log : (v) => v, pad = st.log ? 0 : (y[1] - y[0]) * 0.04, low = f(y[0]) - pad, high = f(y[1]) + pad;
    const py = (v) => box.bottom - ((f(v) - low) / (high - low)) * (box.bottom - box.top);
    const ok = (v) => v !== null && v !== undefined && (!st.log || v > 0);
    for (const t of st.log ? logTicks(y[0], y[1]) : ticks(low, high, 5)) {
      el("line", { class: "grid", x1: box.left, x2: box.right, y1: py(t), y2: py(t) }, svg);
      el("text", { x: box.left - 6, y: py(t) + 4, "text-anchor": "end" }, svg, short(t));
    }
    for (const t of ticks(xs[0], xs[1], width > 520 ? 6 : 4))
      el("text", { x: px(t), y: box.bottom + 17, "text-anchor": px(t) > box.right - 16 ? "end" : "middle" }, svg, short(t));
    el("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    const path = (steps, values, from = "M") => {
      let out = "", pen = from;
      values.forEach((v, i) => { if (ok(v)) { out += `${pen}${px(steps[i]).toFixed(1)},${py(v).toFixed(1)}`; pen = "L"; } else pen = "M"; });
      return out;
    };
    for (const s of lines) {
      const steps = data.steps[s.x];
      if (s.lo) {
        const keep = steps.map((_, i) => i).filter((i) => ok(s.lo[i]) && ok(s.hi[i]));
        if (keep.length > 1) {
          const at = (i, v) => `${px(steps[i]).toFixed(1)},${py(v).toFixed(1)}`;
          const points = keep.map((i) => at(i, s.hi[i])).concat(keep.toReversed().map((i) => at(i, s.lo[i])));
          el("polygon", { class: level(s) ? "band" : "band grey", points: points.join(" "), "data-method": s.m }, svg).style.fill = colour(s.m);
        }
      }
    }
    for (const s of lines)
      stroke(el("path", { class: `line ${["grey", "", "main"][level(s)]}`, d: path(data.steps[s.x], s.y), "data-method": s.m }, svg), s.m);
    const cross = el("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" }, svg);
    const grid = [...new Set(lines.flatMap((s) => data.steps[s.x]))].sort((a, b) => a - b);
    const reveal = (x, pointer = null) => {
      const step = grid.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a));
      cross.setAttribute("x1", px(step)); cross.setAttribute("x2", px(step)); cross.setAttribute("visibility", "visible");
      const rows = lines.map((s) => ({ s, i: data.steps[s.x].indexOf(step) })).filter(({ s, i }) => i >= 0 && s.y[i] !== null);
      rows.sort((a, b) => b.s.y[b.i] - a.s.y[a.i]);
      const near = pointer === null ? null : rows.filter(({ s, i }) => ok(s.y[i]) && Math.abs(py(s.y[i]) - pointer) < 24)
        .sort((a, b) => Math.abs(py(a.s.y[a.i]) - pointer) - Math.abs(py(b.s.y[b.i]) - pointer))[0];
      touch(figure.closest("section"), near?.s.m ?? null);
      const told = rows.length <= 8 ? rows : rows.filter((r) => level(r.s) || r === near);
      tip(figure, (px(step) / width) * figure.clientWidth, `${chart.x}: ${show(step)}`, told.map(({ s, i }) => [s.m, label(figure, s.m),
        show(s.y[i]) + (s.lo && s.lo[i] !== null ? ` [${show(s.lo[i])}, ${show(s.hi[i])}]` : "")]));
      figure.dataset.at = grid.indexOf(step);
    };
    svg.addEventListener("pointermove", (event) => {
      const rect = svg.getBoundingClientRect(), at = ((event.clientX - rect.left) / rect.width) * width;
      reveal(xs[0] + ((at - box.left) / (box.right - box.left)) * (xs[1] - xs[0]), ((event.clientY - rect.top) / rect.height) * height);
    });
    const leave = () => { cross.setAttribute("visibility", "hidden"); untip(figure); touch(figure.closest("section"), null); };
    svg.addEventListener("pointerleave", leave);
    figure.onblur = leave;
    figure.onkeydown = (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") leave();
      if (!move) return;
      event.preventDefault();
      reveal(grid[Math.min(grid.length - 1, Math.max(0, +(figure.dataset.at ?? 0) + move))]);
    };
    return svg;
  }

  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12.5px ${getComputedStyle(document.body).fontFamily}`;
  function twoLines(text, room) {
    // a name that is too long for its column stands on two lines, broken near its middle
    if (pen.measureText(text).width <= room || !text.includes(" ")) return [text];
    const gaps = [...text.matchAll(/ /g)].map((m) => m.index);
    const at = gaps.reduce((a, b) => (Math.abs(b - text.length / 2) < Math.abs(a - text.length / 2) ? b : a));
    return [text.slice(0, at), text.slice(at + 1)];
  }
  function drawStrip(figure, chart) {
    const width = widthOf(figure), room = width * 0.42;
    const names = chart.rows.map((r) => twoLines(label(figure, r.m), room));
    const row = chart.bars ? 24 : !printing ? 27 : names.some((lines) => lines.length > 1) ? 24 : 19;
    const left = Math.min(width * 0.6, Math.max(...names.flat().map((n) => pen.measureText(n).width)) + 16);
    const right = width - (chart.bars ? 18 + Math.max(...chart.rows.map((r) => pen.measureText(r.text).width)) : 34);
    const height = chart.rows.length * row + 36, bottom = height - 26, st = stateOf(figure);
    const svg = el("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.alt });
    const reach = chart.rows.flatMap((r) => [...r.seeds, r.mean, ...(r.lo === null ? [] : [r.lo, r.hi]),
      ...(r.paper === null ? [] : [r.paper - (r.std ?? 0), r.paper + (r.std ?? 0)])]);
    const [low, high] = chart.bars ? [Math.min(0, ...reach), Math.max(chart.bars === "score" ? 1 : 0, ...reach)] : extent(reach), pad = chart.bars ? 0 : (high - low) * 0.03;
    const px = (v) => left + ((v - low + pad) / (high - low + 2 * pad)) * (right - left);
    for (const t of ticks(low, high, width > 520 ? 6 : 4)) {
      el("line", { class: "grid", x1: px(t), x2: px(t), y1: 4, y2: bottom }, svg);
      el("text", { x: px(t), y: bottom + 17, "text-anchor": "middle" }, svg, short(t));
    }
    chart.rows.forEach((r, index) => {
      const y = 18 + index * row, called = label(figure, r.m);
      const group = el("g", { "data-method": r.m, class: st.focus.has(r.m) ? "" : "faint" }, svg);
      const name = el("text", { class: r.m === data.recommended ? "name first" : "name", "text-anchor": "end" }, group);
      names[index].forEach((part, k) => el("tspan", { x: left - 10, y: y + 4 + (names[index].length > 1 ? 12 * k - 6 : 0) }, name, part));
      if (chart.bars) {
        el("rect", { x: px(Math.min(0, r.mean)), y: y - 8, width: Math.max(1, Math.abs(px(r.mean) - px(0))), height: 16, rx: 3 }, group).style.fill = colour(r.m);
        el("text", { class: "name", x: px(Math.max(0, r.mean, r.hi ?? 0)) + 6, y: y + 4 }, group, r.text);
      }
      for (const v of r.seeds) el("circle", { class: "seed", cx: px(v), cy: y, r: 3 }, group).style.fill = colour(r.m);
      if (r.lo !== null) {
        const bar = el("line", { x1: px(r.lo), x2: px(r.hi), y1: y, y2: y, "stroke-width": chart.bars ? 1.5 : 3 }, group);
        bar.style.stroke = chart.bars ? "var(--ink)" : colour(r.m);
      }
      if (!chart.bars) el("circle", { cx: px(r.mean), cy: y, r: 5.5 }, group).style.fill = colour(r.m);
      if (r.paper !== null) {
        const p = px(r.paper);
        if (r.std) el("line", { class: "whisker", x1: px(r.paper - r.std), x2: px(r.paper + r.std), y1: y + 8, y2: y + 8 }, group);
        el("path", { class: "paper", d: `M${p},${y + 3}l5,5l-5,5l-5,-5z` }, group);
      }
      const mark = el("text", { x: width - 6, y: y + 5, "text-anchor": "end" }, group, { yes: "✓", no: "✗", open: "?" }[r.kind] || "");
      mark.style.fill = `var(--${r.kind === "none" ? "soft" : r.kind})`;
      mark.style.fontSize = "15px";
      const hit = el("rect", { x: 0, y: y - row / 2, width, height: row, fill: "transparent" }, group);
      hit.addEventListener("pointermove", () => tip(figure, (px(r.mean) / width) * figure.clientWidth, called, [
        [null, chart.bars || "ours, mean", show(r.mean)], ...(r.lo === null ? [[null, "one seed", "no interval"]] : [[null, "95 % interval", `${show(r.lo)} to ${show(r.hi)}`]]),
        [null, chart.bars === "score" ? "tasks" : "seeds", String(r.count)], ...(r.paper === null ? [] : [[null, "paper", show(r.paper) + (r.std ? ` ± ${show(r.std)}` : "")]]),
        ...(r.verdict ? [[null, r.verdict, ""]] : [])], (y / height) * 100));
      hit.addEventListener("pointerleave", () => untip(figure));
    });
    return svg;
  }

  function tip(figure, x, title, rows, top = 12) {
    untip(figure);
    const box = html("div", figure, "tip");
    box.setAttribute("role", "status");
    html("strong", box, "", title);
    for (const [method, name, value] of rows) {
      const line = html("div", box);
      if (method !== null) line.append(swatch(method));
      html("span", line, "", name);
      html("span", line, "", value);
    }
    const left = x > figure.clientWidth / 2 ? x - box.offsetWidth - 4 : x + 26;
    box.style.left = `${Math.max(4, Math.min(left, figure.clientWidth - box.offsetWidth - 4))}px`;
    box.style.top = `${top}%`;
  }
  const untip = (figure) => $$(".tip", figure).forEach((node) => node.remove());
  function swatch(method) {
    const svg = el("svg", { class: "swatch", viewBox: "0 0 24 10", "aria-hidden": "true" });
    stroke(el("line", { x1: 0, x2: 24, y1: 5, y2: 5 }, svg), method);
    return svg;
  }

  function draw(figure) {
    const chart = data.charts[figure.dataset.chart];
    $$("svg.plot", figure).forEach((node) => node.remove());
    untip(figure);
    figure.append(chart.rows ? drawStrip(figure, chart) : drawLines(figure, chart));
  }
  const redraw = (root = document) => $$("figure.chart", root).forEach(draw);
  // A table that is wider than its place becomes a list of cards: nothing is cut off at any width.
  const fit = (root = document) => $$("table.cards", root).forEach((table) => {
    table.classList.remove("tight", "stacked");
    for (const step of printing ? [] : ["tight", "stacked"])
      if (table.parentNode.clientWidth && table.scrollWidth > table.parentNode.clientWidth + 1) table.classList.add(step);
  });

  function drawHeat(canvas) {
    const map = data.heat[canvas.dataset.heat], bytes = Uint8Array.from(atob(map.cells), (c) => c.charCodeAt(0));
    canvas.width = map.columns; canvas.height = map.rows;
    const context = canvas.getContext("2d"), image = context.createImageData(map.columns, map.rows);
    bytes.forEach((q, i) => {
      const at = ((q - 1) / 253) * (RAMP.length - 1), k = Math.min(RAMP.length - 2, Math.floor(at));
      const rgba = q === 255 ? [128, 128, 128, 0] : q === 0 ? [128, 134, 142, 90] : [0, 1, 2].map((c) => RAMP[k][c] + (at - k) * (RAMP[k + 1][c] - RAMP[k][c])).concat(255);
      image.data.set(rgba, 4 * i);
    });
    context.putImageData(image, 0, 0);
    const figure = canvas.parentNode;
    canvas.addEventListener("pointermove", (event) => {
      const rect = canvas.getBoundingClientRect();
      const column = Math.min(map.columns - 1, Math.floor(((event.clientX - rect.left) / rect.width) * map.columns));
      const line = Math.min(map.rows - 1, Math.floor(((event.clientY - rect.top) / rect.height) * map.rows)), q = bytes[line * map.columns + column];
      if (q === undefined) return;
      const text = q === 255 ? "out of reach" : q === 0 ? "never visited" : `≈ ${show(map.low * (map.high / map.low) ** ((q - 1) / 253))} visits`;
      tip(figure, event.clientX - rect.left, `row ${line + 1}, column ${column + 1}`, [[null, text, ""]]);
    });
    canvas.addEventListener("pointerleave", () => untip(figure));
  }

  // Controls.
  $$("svg.swatch[data-method]").forEach((node) => node.replaceWith(swatch(node.dataset.method)));
  for (const legend of $$(".legend")) {
    const section = legend.closest("section"), st = stateOf(legend);
    const methods = JSON.parse(legend.dataset.methods);
    const sync = () => {
      $$("button", legend).forEach((b) => b.setAttribute("aria-pressed", st.hidden.has(b.dataset.method) ? "false" : st.focus.has(b.dataset.method) ? "true" : "mixed"));
      $$(".maps figure", section).forEach((f) => { f.hidden = st.hidden.has(f.dataset.method); });
      redraw(section);
    };
    for (const method of methods) {
      const button = html("button", legend);
      button.type = "button"; button.dataset.method = method; button.title = "Click: in colour, hidden, grey. Double click: only this one, or as at first.";
      button.append(swatch(method), label(legend, method));
      button.addEventListener("click", () => {
        if (st.focus.delete(method)) st.hidden.add(method);
        else if (!st.hidden.delete(method)) st.focus.add(method);
        sync();
      });
      button.addEventListener("dblclick", () => {
        const others = methods.filter((m) => m !== method), alone = others.every((m) => st.hidden.has(m)) && !st.hidden.has(method);
        st.hidden = new Set(alone ? [] : others);
        st.focus = new Set(alone ? data.focus[section.id] : [method]);
        sync();
      });
      for (const [event, target] of [["pointerenter", method], ["focus", method], ["pointerleave", null], ["blur", null]])
        button.addEventListener(event, () => touch(section, target));
    }
    sync();
  }
  for (const button of $$("button.log"))
    button.addEventListener("click", () => {
      const st = stateOf(button);
      st.log = !st.log;
      button.setAttribute("aria-pressed", st.log);
      redraw(button.closest("section"));
    });
  for (const button of $$(".tabs button[data-pane]"))
    button.addEventListener("click", () => {
      const section = button.closest("section");
      $$("button", button.parentNode).forEach((b) => b.setAttribute("aria-pressed", b === button));
      $$(`.pane[data-kind="${button.dataset.kind}"]`, section).forEach((p) => { p.hidden = p.dataset.pane !== button.dataset.pane; });
      redraw(section);
      fit(section);
    });
  const root = document.documentElement, themed = document.querySelector("button.theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { themed.textContent = dark() ? "☀ Light" : "☾ Dark"; };
  try { const saved = localStorage.getItem("lpm-theme"); if (saved === "dark" || saved === "light") root.dataset.theme = saved; } catch { /* storage is off */ }
  themed.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("lpm-theme", root.dataset.theme); } catch { /* storage is off */ }
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  document.querySelector("button.print").addEventListener("click", () => print());

  const folds = $$("details.fold"), toggle = document.querySelector("button.folds");
  const everyOpen = () => folds.every((d) => d.open);
  for (const fold of folds)
    fold.addEventListener("toggle", () => {
      toggle.textContent = everyOpen() ? "Close all" : "Open all";
      if (fold.open) { redraw(fold); fit(fold); }
    });
  toggle.addEventListener("click", () => { const open = !everyOpen(); folds.forEach((d) => { d.open = open; }); });
  $$("canvas.heat").forEach(drawHeat);
  // On a phone tables are long lists: they wait until they are asked for.
  if (innerWidth < 700) $$("details.fold details.fold, #ranking details.fold").forEach((d) => { d.open = false; });
  const layOut = () => { redraw(); fit(); };
  layOut();
  let timer = 0, last = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== last) { last = innerWidth; clearTimeout(timer); timer = setTimeout(layOut, 120); } });
  addEventListener("beforeprint", () => { printing = true; layOut(); });
  addEventListener("afterprint", () => { printing = false; layOut(); });
  const links = new Map($$("nav.bar a").map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      links.forEach((a) => a.removeAttribute("aria-current"));
      const link = links.get(entry.target.id), row = link.parentElement;
      link.setAttribute("aria-current", "true");
      row.scrollLeft = link.offsetLeft - row.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  links.forEach((_, id) => { const target = document.getElementById(id); if (target) seen.observe(target); });
  root.dataset.ready = "true";
})();
