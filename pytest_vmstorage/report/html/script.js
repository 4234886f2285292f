"use strict";
// Other views of the matrix than the one that the page was made with. Rules and texts are those of views.py and heat.py:
// a cell shows one row or asks for a choice, and the figures' texts are taken from the tables of all figures.
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (name, attributes = {}, ...inside) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...inside);
    return made;
  };
  const told = (text) => { $("told").textContent = text; setTimeout(() => { $("told").textContent = ""; }, 2500); };

  // light, dark, or what the system says
  const root = document.documentElement;
  const setTheme = (name) => { if (name) root.dataset.theme = name; else delete root.dataset.theme; };
  const remembered = (name) => {
    try { if (name === undefined) return localStorage.getItem("vmstorage-theme") || ""; localStorage.setItem("vmstorage-theme", name); } catch { /* a page may have no storage */ }
    return "";
  };
  setTheme(remembered());
  const theme = make("select", { "aria-label": "colours", class: "theme", onchange: (e) => { setTheme(e.target.value); remembered(e.target.value); } },
    ...[["", "system colours"], ["light", "light"], ["dark", "dark"]].map(([value, text]) => make("option", { value, selected: value === remembered() }, text)));
  document.querySelector("header").append(theme);

  const copy = async (text, what) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = make("textarea", { readonly: true }); area.value = text;
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    told(`copied ${what}`);
  };
  for (const figure of document.querySelectorAll("figure.chart")) {
    const name = figure.querySelector("h3").textContent;
    const button = (what, text) => make("button", { type: "button", "aria-label": `copy ${name} as ${what}`, onclick: () => copy(text(), `the chart as ${what}`) }, `copy ${what}`);
    figure.append(make("div", { class: "bar" },
      button("SVG", () => {
        // by itself it needs the sentence that the page has behind it
        const picture = figure.querySelector("svg").cloneNode(true), said = document.createElementNS(picture.namespaceURI, "desc");
        said.textContent = figure.querySelector("details p")?.textContent || "";
        picture.firstChild.after(said);
        return new XMLSerializer().serializeToString(picture);
      }),
      button("CSV", () => figure.querySelector("pre").textContent)));
  }

  if (!$("data")) return;
  const data = JSON.parse($("data").textContent);
  const { axes, values, rows, columns, ranges } = data;
  const at = (name) => axes.indexOf(name);
  const initial = { column: data.view.column, down: data.view.down.map(at), across: at(data.view.across), only: new Map(), ref: {} };
  const MOST = 60, LEVELS = [1.1, 1.25, 2];
  let state = initial, most = MOST;

  // where the texts of each column stand: its table's lines, and the cell in a line
  const lines = data.blocks.map(([, some], place) => {
    const found = document.querySelectorAll(`#w${place + 1}-figures tbody tr`);
    return some.length ? new Map(some.map((row, i) => [row, found[i]])) : new Map(rows.map((_, i) => [i, found[i]]));
  });
  const home = columns.map((_, column) => {
    const block = data.blocks.findIndex(([inside]) => inside.includes(column));
    return [block, data.blocks[block][0].indexOf(column) + axes.length];
  });
  const cellOf = (row, column) => lines[home[column][0]].get(row)?.cells[home[column][1]];
  const has = columns.map((_, column) => rows.map((_, row) => {
    if (ranges[column][row]) return true;
    const cell = cellOf(row, column);
    return Boolean(cell) && cell.textContent.trim() !== "-";
  }));

  // links: readable where they are short, numbers where not
  const slug = (text) => text.toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^-|-$/g, "");
  const word = (text) => encodeURIComponent(text).replace(/%20/g, "_");
  const same = (one, other) => one.length === other.length && one.every((value, i) => value === other[i]);
  const encode = (s) => {
    const parts = [], { of, name } = columns[s.column];
    if (s.column !== initial.column) {
      parts.push(`metric=${word(name)}`);
      if (of !== columns[initial.column].of || columns.some((one, i) => i < s.column && one.of === of && one.name === name)) parts.push(`of=${slug(of)}`);
    }
    if (!same(s.down, initial.down)) parts.push(`rows=${s.down.map((i) => word(axes[i])).join(",")}`);
    if (s.across !== initial.across) parts.push(`cols=${s.across < 0 ? "" : word(axes[s.across])}`);
    const only = [...s.only].sort((a, b) => a[0] - b[0]);
    if (only.length) parts.push(`only=${only.map(([i, kept]) => `${word(axes[i])}:${[...kept].sort((a, b) => a - b).map((v) => word(values[i][v])).join("+")}`).join(",")}`);
    if (s.ref.row != null) parts.push(`ref=row:${s.ref.row + 1}`);
    else if (s.ref.axis != null) parts.push(`ref=${word(axes[s.ref.axis])}:${word(values[s.ref.axis][s.ref.value])}`);
    const hash = parts.join("&");
    if (hash.length <= 199 && equal(decode(hash), s)) return hash;
    const bits = (kept) => [...kept].reduce((sum, v) => sum + (1n << BigInt(v)), 0n).toString(36);
    const ref = s.ref.row != null ? `r${s.ref.row}` : s.ref.axis != null ? `${s.ref.axis}.${s.ref.value}` : "";
    return `view=${[s.column, s.down.join("."), s.across, ref, ...only.map(([i, kept]) => `${i}.${bits(kept)}`)].join("~")}`;
  };
  const equal = (one, other) => JSON.stringify(plainState(one)) === JSON.stringify(plainState(other));
  const plainState = (s) => [s.column, s.down, s.across, s.ref.row ?? null, s.ref.axis ?? null, s.ref.value ?? null,
    [...s.only].map(([i, kept]) => [i, [...kept].sort((a, b) => a - b)]).sort((a, b) => a[0] - b[0])];
  const number = (text, below) => { const n = Number(text); return text !== "" && Number.isInteger(n) && n >= 0 && n < below ? n : -1; };
  const decodeNumbers = (text) => {
    const [column, down, across, ref, ...only] = text.split("~"), found = { ...initial, only: new Map(), ref: {} };
    if (number(column, columns.length) >= 0) found.column = +column;
    found.down = [...new Set((down || "").split(".").map((one) => number(one, axes.length)).filter((one) => one >= 0))];
    found.across = number(across ?? "", axes.length);
    if (ref?.startsWith("r")) { const row = number(ref.slice(1), rows.length); if (row >= 0) found.ref = { row }; }
    else if (ref) { const [axis, value] = ref.split("."); if (values[axis]?.[value] != null) found.ref = { axis: +axis, value: +value }; }
    for (const one of only) {
      const [axis, bits] = one.split("."), i = number(axis, axes.length);
      if (i < 0 || !bits) continue;
      let mask = 0n;
      for (const c of bits) { const digit = parseInt(c, 36); if (digit >= 0) mask = mask * 36n + BigInt(digit); }
      const kept = new Set(values[i].map((_, v) => v).filter((v) => mask >> BigInt(v) & 1n));
      if (kept.size) found.only.set(i, kept);
    }
    return found;
  };
  const decode = (hash) => {
    const given = new Map(hash.split("&").map((part) => { const cut = part.indexOf("="); return [part.slice(0, cut), part.slice(cut + 1)]; }));
    if (given.has("view")) return decodeNumbers(given.get("view"));
    const clear = (text) => { try { return decodeURIComponent(text.replace(/_/g, "%20")); } catch { return ""; } };
    // in a link "_" is a blank, and a name may have one of its own
    const find = (names, text) => { const exact = names.findIndex((name) => word(name) === text); return exact >= 0 ? exact : names.indexOf(clear(text)); };
    const found = { ...initial, only: new Map(), ref: {} };
    if (given.has("metric") || given.has("of")) {
      const of = given.get("of") ?? slug(columns[initial.column].of), name = given.get("metric");
      const fitting = columns.findIndex((one) => slug(one.of) === of && (name == null || word(one.name) === name));
      const otherwise = columns.findIndex((one) => word(one.name) === name);
      found.column = fitting >= 0 ? fitting : Math.max(otherwise, 0);
    }
    const names = (text) => [...new Set(text.split(",").map((one) => find(axes, one)).filter((i) => i >= 0))];
    if (given.has("cols")) found.across = find(axes, given.get("cols"));
    if (given.has("rows")) found.down = names(given.get("rows"));
    found.down = found.down.filter((i) => i !== found.across);
    for (const part of (given.get("only") || "").split(",")) {
      const [name, kept = ""] = part.split(":"), i = find(axes, name);
      const chosen = i < 0 ? [] : kept.split("+").map((one) => find(values[i], one)).filter((v) => v >= 0);
      if (chosen.length) found.only.set(i, new Set(chosen));
    }
    const [name, value = ""] = (given.get("ref") || "").split(":"), axis = find(axes, name);
    if (name === "row" && number(value, rows.length + 1) > 0) found.ref = { row: +value - 1 };
    else if (axis >= 0 && find(values[axis], value) >= 0) found.ref = { axis, value: find(values[axis], value) };
    return found;
  };

  // a view: which row falls into which cell, and how it compares
  const passes = (row, only) => { for (const [i, kept] of only) if (!kept.has(row[i])) return false; return true; };
  const layOut = (s) => {
    const members = new Map(), down = new Map(), wide = new Set();
    rows.forEach((row, place) => {
      if (!has[s.column][place] || !passes(row, s.only)) return;
      const left = s.down.map((i) => row[i]).join(), top = s.across < 0 ? 0 : row[s.across];
      if (!down.has(left)) down.set(left, s.down.map((i) => values[i][row[i]]));
      wide.add(top);
      const key = `${left}|${top}`;
      if (members.has(key)) members.get(key).push(place); else members.set(key, [place]);
    });
    return { members, down, across: [...wide].sort((a, b) => a - b) };
  };
  const asked = (inside) => {
    const said = axes.map((name, i) => [new Set(inside.map((place) => rows[place][i])).size, name]).filter(([count]) => count > 1).map(([count, name]) => `${count} values of ${name}`);
    return `${said.join(", ") || `${inside.length} rows`}: choose one`;
  };
  const group = (row) => data.apart.length ? data.apart[row] : 0;
  const mayCompare = (one, other) => {
    const [host, accel] = data.pairs[group(one)], [otherHost, otherAccel] = data.pairs[group(other)];
    return host === otherHost && (accel === otherAccel || (accel !== "tcg" && otherAccel !== "tcg"));
  };
  let places;
  const baseOf = (s, best) => (row) => {
    if (s.ref.row != null) return s.ref.row;
    if (s.ref.axis == null) return best.get(group(row));
    places ??= new Map(rows.map((one, place) => [one.join(), place]));
    return places.get(rows[row].with(s.ref.axis, s.ref.value).join());
  };
  const compared = (s, row, base) => {
    const { better } = columns[s.column], range = ranges[s.column];
    if (better === "neither") return ["", ""];
    if (base === row) return ["ref", "reference"];
    const mine = range[row], theirs = base == null ? 0 : range[base];
    if (!mine || !theirs || !mayCompare(row, base) || Math.min(mine[1], theirs[1]) <= 0) return ["", ""];
    const [fast, slow] = better === "higher" ? [mine, theirs] : [theirs, mine];
    const times = fast[0] / slow[0], low = fast[1] / slow[2], high = fast[2] / slow[1];
    if (Math.min(mine[3], theirs[3]) < 2) return ["u", `${times.toFixed(2)}x (one round: spread unknown)`];
    const step = 1 + LEVELS.filter((limit) => Math.max(times, 1 / times) >= limit).length;
    const isSure = low > 1 || high < 1, css = isSure ? `${times > 1 ? "f" : "s"}${step}` : "u";
    const said = (x) => x.toFixed(isSure && Math.abs(x - 1) < 0.005 ? 4 : 2);
    return [css, `${said(times)}x (${said(low)} to ${said(high)})`];
  };
  const draw = () => {
    const s = state, { members, down, across } = layOut(s), range = ranges[s.column], best = new Map();
    const isBetter = columns[s.column].better === "lower" ? (a, b) => a < b : (a, b) => a > b;
    for (const inside of members.values()) {
      const [row] = inside, theirs = best.get(group(row));
      if (inside.length === 1 && range[row] && (theirs == null || isBetter(range[row][0], range[theirs][0]))) best.set(group(row), row);
    }
    const base = baseOf(s, best);
    const spot = (inside) => {
      if (!inside) return make("td", {}, "-");
      if (inside.length > 1) return make("td", { class: "choose" }, make("i", {}, asked(inside)));
      const [row] = inside, source = cellOf(row, s.column), cell = make("td", {}, ...[...source.childNodes].map((one) => one.cloneNode(true)));
      if (source.className) { cell.className = source.className; return cell; }
      const [css, text] = compared(s, row, base(row));
      if (css) cell.className = css;
      if (text) cell.append(make("small", { class: "times" }, text));
      return cell;
    };
    const heads = s.down.map((i) => make("th", { scope: "col" }, axes[i]));
    heads.push(...across.map((v) => s.across < 0 ? make("th", { scope: "col" }, "figure") : make("th", { scope: "col" }, make("small", {}, axes[s.across]), ` ${values[s.across][v]}`)));
    const body = [...down].slice(0, most).map(([left, names]) => make("tr", {},
      ...names.map((name) => make("th", { scope: "row" }, name)), ...across.map((top) => spot(members.get(`${left}|${s.across < 0 ? 0 : top}`)))));
    $("heat").replaceChildren(make("table", { class: "heat" }, make("caption", {}, columns[s.column].heading),
      make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body)));
    const left = down.size - body.length;
    if (left > 0) $("heat").append(make("p", {}, `and ${left} rows more: choose values below, or see all figures `, make("button", { type: "button", onclick: () => { most += 500; draw(); } }, "show 500 more")));
    if (!members.size) $("heat").append(make("p", {}, "No row has these values."));
  };
  // the tables of all figures follow the matrix, a part in each frame where they are long, the newest choice alone
  const AT_ONCE = 500;
  const shown = lines.map((block) => [...block].map(([row, line]) => ({ row, line, out: false }))).flat();
  let turn = 0;
  const filter = () => {
    const mine = turn += 1, out = rows.map((row) => !passes(row, state.only));
    const step = (from) => {
      if (mine !== turn) return;
      let left = AT_ONCE, place = from;
      for (; place < shown.length && left > 0; place += 1) {
        const one = shown[place];
        if (one.out !== out[one.row]) { one.out = out[one.row]; one.line.classList.toggle("out", one.out); left -= 1; }
      }
      if (place < shown.length) requestAnimationFrame(() => step(place));
    };
    step(0);
  };
  const markdown = () => {
    const text = (cell) => [...cell.childNodes].map((one) => one.textContent.trim()).filter(Boolean).join(" ").replace(/\s+/g, " ")
      .replace(/[\\|*_`<>[\]~]/g, "\\$&").replace(/:(?=\/\/)/g, "\\:").replace(/@(?=\w)/g, "@\u2060");
    const [head, ...body] = [...$("heat").querySelectorAll("tr")].map((line) => [...line.cells].map(text));
    const line = (texts) => `| ${texts.join(" | ")} |`;
    return `${text($("heat").querySelector("caption"))}\n\n${[line(head), line(head.map((_, i) => i < state.down.length ? "---" : "---:")), ...body.map(line)].join("\n")}\n`;
  };

  // controls: made once, so that the focus stays where it is
  const go = (change) => {
    const next = { ...state, ...change }, hash = encode(next);
    const link = equal(next, initial) ? location.pathname + location.search : `#${hash}`;
    try { history.pushState(null, "", link); } catch { location.hash = hash; }
    show(next);
  };
  const option = (text, value) => make("option", { value }, text);
  const labelled = (text, control) => make("label", {}, `${text} `, control);
  const metric = make("select", { onchange: (e) => go({ column: +e.target.value }) });
  data.blocks.forEach(([inside]) => metric.append(make("optgroup", { label: columns[inside[0]].of }, ...inside.map((i) => option(columns[i].name || columns[i].of, i)))));
  const cols = make("select", { onchange: (e) => { const across = +e.target.value, freed = state.across; go({ across, down: axes.map((_, i) => i).filter((i) => i !== across && (i === freed || state.down.includes(i))) }); } },
    option("one column", -1), ...axes.map((name, i) => option(name, i)));
  const downs = axes.map((name, i) => make("button", { type: "button", onclick: () => go({
    across: state.across === i ? -1 : state.across, down: axes.map((_, k) => k).filter((k) => (k === i) !== state.down.includes(k)) }) }, name));
  const reference = make("select", { onchange: (e) => { const [axis, value] = e.target.value.split("."); go({ ref: axis === "" ? {} : axis === "row" ? { row: +value } : { axis: +axis, value: +value } }); } },
    option("best shown", ""), ...axes.map((name, i) => make("optgroup", { label: `same cell with ${name}` }, ...values[i].map((value, v) => option(`${name} ${value}`, `${i}.${v}`)))));
  if (rows.length <= 200) reference.append(make("optgroup", { label: "one cell" }, ...rows.map((row, i) => option(row.map((v, k) => values[k][v]).join(" "), `row.${i}`))));
  const chips = axes.map((name, i) => {
    const choose = (v) => { const kept = new Set(state.only.get(i)); if (!kept.delete(v)) kept.add(v); const only = new Map(state.only); if (kept.size && kept.size < values[i].length) only.set(i, kept); else only.delete(i); go({ only }); };
    if (values[i].length > 12) {
      const select = make("select", { onchange: (e) => { const only = new Map(state.only); if (e.target.value === "") only.delete(i); else only.set(i, new Set([+e.target.value])); go({ only }); } }, option("all", ""), ...values[i].map((value, v) => option(value, v)));
      return { box: labelled(name, select), update: (counts) => {
        const kept = state.only.get(i); select.value = kept?.size === 1 ? [...kept][0] : "";
        values[i].forEach((value, v) => { select.options[v + 1].textContent = `${value} (${counts[v]})`; }); } };
    }
    const buttons = values[i].map((value, v) => make("button", { type: "button", onclick: () => choose(v) }));
    return { box: make("fieldset", {}, make("legend", {}, name), ...buttons), update: (counts, total) => buttons.forEach((button, v) => {
      button.textContent = `${values[i][v]} (${counts[v]})`;
      button.setAttribute("aria-pressed", String(Boolean(state.only.get(i)?.has(v))));
      button.classList.toggle("dim", !state.only.get(i)?.has(v) && (counts[v] === 0 || counts[v] === total));
    }) };
  });
  const update = () => {
    metric.value = state.column; cols.value = state.across;
    downs.forEach((button, i) => button.setAttribute("aria-pressed", String(state.down.includes(i))));
    reference.value = state.ref.row != null ? `row.${state.ref.row}` : state.ref.axis != null ? `${state.ref.axis}.${state.ref.value}` : "";
    // a row that one axis alone leaves out still counts there: it is what a further value would bring
    const counts = values.map((one) => one.map(() => 0)), totals = values.map(() => 0);
    const count = (row, i) => { counts[i][row[i]] += 1; totals[i] += 1; };
    rows.forEach((row, place) => {
      if (!has[state.column][place]) return;
      const out = [];
      for (const [i, kept] of state.only) if (!kept.has(row[i]) && out.push(i) > 1) return;
      if (out.length) count(row, out[0]); else for (let i = 0; i < totals.length; i += 1) count(row, i);
    });
    chips.forEach(({ update: one }, i) => one(counts[i], totals[i]));
  };
  const show = (next) => {
    const isFiltered = next.only.size || state.only.size;
    state = next; most = MOST;
    draw(); update();
    if (isFiltered) filter();
  };
  $("controls").append(
    make("div", { class: "bar" }, labelled("figure", metric), labelled("columns", cols),
      ...(axes.length ? [make("fieldset", {}, make("legend", {}, "rows"), ...downs)] : []), labelled("compare with", reference),
      make("button", { type: "button", onclick: () => copy(markdown(), "the matrix as Markdown") }, "copy as Markdown"),
      make("button", { type: "button", onclick: () => go(initial) }, "as at first")));
  $("filters").append(...chips.map(({ box }) => box));
  $("controls").hidden = $("filters").hidden = false;
  const follow = () => {
    const hash = location.hash.slice(1);
    // a link to a section leaves the view as it is
    if (hash === "" || hash.includes("=")) show(hash ? decode(hash) : initial);
  };
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  if (location.hash.includes("=")) follow(); else update();
})();
