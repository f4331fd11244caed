/*
 * The dashboard: reads the API again and again and shows it. It changes nothing.
 *
 * What the API answers comes from outside (names, details, reasons), so it gets into the page as text only, never as markup:
 * every cell goes through put() below. While the coordinator is away the page keeps what it knew and says how old that is.
 */
'use strict';

const PERIOD_MS = 2000; // from one reading to the next; longer when reading takes long
const TIMEOUT_MS = 8000;
const AT_ONCE = 6; // requests
const EVENTS = 50;
const MOVED = 20;
const OPERATED = 10;
const RUNNING = ['learning', 'caught_up', 'releasing', 'released', 'activating'];
const PAGE = 1000; // the API's limit of one page

// ---- texts

function count(value) {
    if (value === null || value === undefined) {
        return '?'; // unknown is unknown, never 0
    }
    return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* In the unit that leaves two or three digits. */
function duration(ms) {
    if (ms === null || ms === undefined) {
        return '?';
    }
    const [seconds, minutes, hours] = [ms / 1000, ms / 60000, ms / 3600000];
    if (seconds < 1) {
        return `${Math.max(0, Math.round(ms))} ms`;
    }
    if (minutes < 2) {
        return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
    }
    return hours < 2 ? `${Math.floor(minutes)} min` : hours < 48 ? `${Math.floor(hours)} h` : `${Math.floor(hours / 24)} d`;
}

function plural(number, one, many) {
    return `${count(number)} ${number === 1 ? one : many}`;
}

function clockTime(date) {
    const two = (number) => String(number).padStart(2, '0');
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// ---- the page; everything that comes from outside passes here, as text

function put(node, text) {
    if (node.textContent !== text) {
        node.textContent = text; // only when it has changed: selections and screen readers are left in peace
    }
}

function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) {
        node.className = className;
    }
    if (text !== undefined) {
        put(node, text);
    }
    return node;
}

/* A value of a cell is a text, {text, className}, or {share, text}: a bar, 0 to 1, and what it says in words. */
function fillCell(cell, value, className) {
    const shown = typeof value === 'object' ? value : {text: value};
    const classes = [className, shown.className].filter(Boolean).join(' ');
    if (cell.className !== classes) {
        cell.className = classes;
    }
    if (shown.share === undefined) {
        put(cell, shown.text);
        return;
    }
    let [bar, words] = cell.children;
    if (!words) {
        bar = make('progress');
        bar.max = 1;
        words = make('span');
        cell.replaceChildren(bar, words);
    }
    if (bar.value !== shown.share) {
        bar.value = shown.share;
    }
    bar.setAttribute('aria-label', shown.text);
    put(words, ` ${shown.text}`);
}

/*
 * A table that stays while its rows change, so that focus, scroll position and selection do, too. Columns are
 * {title, number, wide, value(item)}; an item with `heading` is one over the rows that follow.
 */
class Table {
    constructor(place, label, empty, columns) {
        this.columns = columns;
        this.rows = new Map();
        this.none = make('p', 'none', empty);
        this.scroll = make('div', 'scroll');
        this.scroll.tabIndex = 0; // can be scrolled by keyboard
        this.scroll.setAttribute('role', 'region');
        this.scroll.setAttribute('aria-label', label);
        const table = make('table');
        const head = make('tr');
        for (const column of columns) {
            const title = make('th', column.number ? 'number' : '', column.title);
            title.scope = 'col';
            head.append(title);
        }
        const top = make('thead');
        top.append(head);
        this.body = make('tbody');
        table.append(top, this.body);
        this.scroll.append(table);
        place.replaceChildren(this.none, this.scroll);
        this.show([]);
    }

    makeRow(item) {
        const row = make('tr');
        if (item.heading !== undefined) {
            const cell = make('th');
            cell.scope = 'rowgroup';
            cell.colSpan = this.columns.length;
            row.append(cell);
            return row;
        }
        for (let i = 0; i < this.columns.length; i++) {
            row.append(make('td'));
        }
        return row;
    }

    fillRow(row, item) {
        if (item.heading !== undefined) {
            fillCell(row.children[0], item.heading, '');
            return;
        }
        this.columns.forEach((column, i) => {
            const className = column.number ? 'number' : column.wide ? 'text' : '';
            fillCell(row.children[i], column.value(item), className);
        });
    }

    /* `key(item)` tells rows apart over time. */
    show(items, key) {
        const rows = new Map();
        let before = null;
        for (const item of items) {
            const name = key(item);
            const row = this.rows.get(name) || this.makeRow(item);
            this.fillRow(row, item);
            rows.set(name, row);
            const place = before ? before.nextSibling : this.body.firstChild;
            if (place !== row) {
                this.body.insertBefore(row, place);
            }
            before = row;
        }
        for (const [name, row] of this.rows) {
            if (!rows.has(name)) {
                row.remove();
            }
        }
        this.rows = rows;
        this.none.hidden = items.length > 0;
        this.scroll.hidden = items.length === 0;
    }
}

/* Ascending numbers as people write them: 0-3, 8. */
function ranges(numbers) {
    const parts = [];
    for (let i = 0; i < numbers.length;) {
        let last = i;
        while (last + 1 < numbers.length && numbers[last + 1] === numbers[last] + 1) {
            last++;
        }
        parts.push(last === i ? String(numbers[i]) : `${numbers[i]}${last === i + 1 ? ', ' : '-'}${numbers[last]}`);
        i = last + 1;
    }
    return parts.join(', ');
}

// ---- what it is about

function sumOwned(processor, field) {
    let sum = 0;
    for (const partition of processor.partitions) {
        if (partition.owned) {
            if (partition[field] === null) {
                return null;
            }
            sum += partition[field];
        }
    }
    return sum;
}

/* How much of what its state is made of (T0 to T1) the target of a hand-over has learned: 0 to 1, or null. */
function shareLearned(handoff, processor) {
    if (handoff.kind === 'split') { // what it makes is no processor yet
        const {learned_records: learned, target_records: target} = handoff;
        return learned === null || target === null ? null : learned >= target ? 1 : learned / target;
    }
    if (!processor || handoff.replay_records === null) {
        return null;
    }
    const from = sumOwned(processor, 't0');
    const to = sumOwned(processor, 't1');
    if (from === null || to === null) {
        return null;
    }
    return to <= from ? 1 : Math.min(1, Math.max(0, 1 - handoff.replay_records / (to - from)));
}

function learnedCell(handoff, processor) {
    const share = shareLearned(handoff, processor);
    return share === null ? '?' : {share, text: `${Math.floor(share * 100)} %`};
}

function stateCell(state) {
    const bad = ['failed', 'fenced', 'agent_lost', 'unassigned', 'lost', 'cancelled'];
    const good = ['active', 'alive', 'running', 'done', 'succeeded'];
    return {text: state, className: bad.includes(state) ? 'bad' : good.includes(state) ? 'good' : 'warn'};
}

/* Of what should be 0. */
function badCell(number) {
    return {text: count(number), className: number > 0 ? 'bad' : ''};
}

/* Whether an agent is to leave, and whether it may be stopped by now. */
function leavingCell(agent) {
    if (agent.safe_to_stop) {
        return {text: 'safe to stop', className: 'good'};
    }
    return agent.drain === null ? '' : {text: agent.drain, className: 'warn'};
}

/* What a drain still needs most time for; what nobody knows the time of is the slowest, first of all what is stuck. */
function slowestOf(drain) {
    const rank = (left) => (left.eta_ms !== null ? left.eta_ms : left.stuck === null && left.handoff !== null ? 1e15 : 2e15);
    return drain.left.reduce((most, left) => (most === null || rank(left) > rank(most) ? left : most), null);
}

/* Of all processors of a job: how many would take over at once, of those that it wants. */
function standbysCell(status) {
    if (status.standbys_wanted === 0) {
        return '';
    }
    const text = `${count(status.standbys_ready)} of ${count(status.standbys_wanted)}`;
    return status.standbys_ready < status.standbys_wanted ? {text, className: 'warn'} : text;
}

function standbyText(standby) {
    return `${standby.agent}: ${standby.ready ? 'ready' : standby.waiting ?? standby.state}`;
}

/* Of an agent without drain_view (it does not leave, or that was not read) nothing is said. */
function leftCell(agent) {
    const drain = agent.drain_view;
    return drain ? `${count(drain.left.length)} of ${count(drain.processors)}` : '';
}

function goneInCell(agent) {
    const drain = agent.drain_view;
    return !drain || drain.safe_to_stop ? '' : drain.overdue ? {text: 'overdue', className: 'bad'} : duration(drain.eta_ms);
}

function slowestCell(agent) {
    const slowest = agent.drain_view ? slowestOf(agent.drain_view) : null;
    if (slowest === null) {
        return '';
    }
    const to = slowest.target === null ? '' : ` to ${slowest.target}`;
    const text = `${slowest.job} ${slowest.processor}${to}: ${slowest.waiting ?? slowest.state ?? 'not begun'}`;
    return {text, className: slowest.stuck === null ? '' : 'bad'};
}

// ---- operations

const COUNTED = {expand_processors: 'processors', expand_partitions: 'partitions'}; // what grows, of the kinds that count it
const CALLED = {create_job: 'creation', delete_job: 'deletion'};
const FINAL = {create_job: 'no: delete the job instead', delete_job: 'no: it can not be undone'};
const hasEnded = (operation) => ['succeeded', 'failed', 'cancelled'].includes(operation.state);

function kindText(handoff) {
    return handoff.kind === 'split' ? `split off ${count(handoff.parent)}` : 'move';
}

/* Of an expansion: from how many to how many; where it stopped, unless that is the goal. */
function operationText(operation) {
    const what = COUNTED[operation.kind];
    if (what === undefined) {
        return CALLED[operation.kind] ?? operation.kind;
    }
    const {from, to, reached} = operation;
    const now = reached === to ? '' : `, ${count(reached)} ${hasEnded(operation) ? 'reached' : 'now'}`;
    return `${what}: ${count(from)} to ${count(to)}${now}`;
}

function stepText(operation) {
    if (COUNTED[operation.kind] === undefined) {
        return operation.step;
    }
    const part = operation.kind === 'expand_processors' ? 'split' : 'step';
    const number = `${part} ${count(operation.step_number)} of ${count(operation.steps)}`;
    return part === 'split' ? number : `${number}: ${operation.step}`;
}

/* `handoff`: the split that it waits for, or undefined. How far a move is stands among the hand-overs. */
function splitLearnedCell(handoff) {
    if (!handoff || handoff.kind !== 'split') {
        return '';
    }
    const {learned_records: learned, target_records: target, replayed_per_s: rate} = handoff;
    const text = `${count(learned)} of ${count(target)} records, ${count(rate)}/s`;
    const share = shareLearned(handoff, undefined);
    return share === null ? text : {share, text};
}

function cancelCell(operation) {
    if (!operation.cancellable) {
        return FINAL[operation.kind] ?? 'too late: it has to finish';
    }
    const base = location.href.split('#')[0].replace(/[^/]*$/, '');
    return {text: `curl -X DELETE ${base}v1/operations/${operation.id}`, className: 'code'};
}

function actionCell(operation) {
    return operation.action === null ? '' : {text: operation.action, className: 'warn'};
}

/* All of one under a heading, line by line, so that it can be read without scrolling sideways; nothing where there is nothing. */
function operationLines(operation, handoff, now) {
    const why = operation.reason === null ? '' : `: ${operation.reason}`;
    const lines = [
        ['Asked for', `${since(operation.created_at, now)} ago by ${operation.actor ?? '?'}${why}`],
        ['Now', stepText(operation)],
        ['Waits for', operation.waiting ?? '?'],
        ['What to do', actionCell(operation)],
        ['T2 of T1', splitLearnedCell(handoff)],
        ['All ready in', operation.kind === 'expand_processors' ? duration(operation.eta_ms) : ''],
        ['To cancel', cancelCell(operation)],
    ];
    const shown = lines.filter(([, value]) => value !== '').map(([title, value]) => ({title, value, id: operation.id}));
    return [{heading: `${operation.job}, ${operationText(operation)} (${operation.id})`, id: operation.id}, ...shown];
}

// ---- settle windows

const STALE = 'A producer is late: see stale_after_settle among the problems.';

/* Those of a job that say something: open ones, and what has met an old-count record. The latest processor of each. */
function listWindows(processors) {
    const items = [];
    for (const processor of processors) {
        for (const partition of processor.partitions) {
            if (partition.owned && partition.window !== null && (partition.window === 'open' || partition.old_records > 0)) {
                items.push({...partition, processor: processor.processor});
            }
        }
    }
    const rank = (item) => (item.window_stale ? 0 : item.window === 'open' ? 1 : 2);
    return items.sort((a, b) => rank(a) - rank(b));
}

function windowCell(partition) {
    if (partition.window === 'closed') {
        return {text: 'closed', className: 'good'};
    }
    return partition.window_stale ? {text: 'open again', className: 'bad'} : {text: 'open', className: 'warn'};
}

/* The earliest time at which it can be closed: by then only its owner has to commit what came until then. */
function closingText(at, now) {
    if (at === null) {
        return 'can not be closed: nobody knows how keys are placed';
    }
    const left_ms = Date.parse(at) - now;
    return left_ms > 0 ? `in ${duration(left_ms)} at the earliest` : 'as soon as its owner has committed what came until then';
}

function windowsText(status, now) {
    const {windows_open: open, windows_stale: again, old_records: records} = status;
    if (open === 0 && records === 0) {
        return '';
    }
    const met = records === 0 ? 'no old-count record was met'
        : `${plural(records, 'old-count record was', 'old-count records were')} met, the last ${since(status.old_at, now)} ago`;
    if (open === 0) {
        return `All are closed; ${met}.`;
    }
    const opened = `${plural(open, 'is', 'are')} open${again > 0 ? `, ${count(again)} of them again` : ''}`;
    const at = status.windows_close_at;
    return `${opened}; ${met}; ${at === null ? 'they' : 'the first ends'} ${closingText(at, now)}.`;
}

function windowsCell(status) {
    if (status.windows_open === 0) {
        return '';
    }
    return status.windows_stale > 0
        ? {text: `${count(status.windows_open)} open, ${count(status.windows_stale)} again`, className: 'bad'}
        : {text: `${count(status.windows_open)} open`, className: 'warn'};
}

// ---- the map

/* Linear hashing: the processor that this one was split off from. */
function parentOf(bucket, initial) {
    let span = initial;
    while (span * 2 <= bucket) {
        span *= 2;
    }
    return bucket < initial ? null : bucket - span;
}

function listMap(map) {
    const items = Array.from({length: map.processors}, (_, processor) => (
        {processor, agent: null, partitions: [], parent: parentOf(processor, map.processors_initial)}));
    for (const item of map.items) {
        items[item.processor].agent = item.agent;
        items[item.processor].partitions.push(item.partition);
    }
    return items;
}

function countsText(map, what) {
    const [now, initial, level, pointer] = ['', '_initial', '_level', '_split_pointer'].map((part) => map[what + part]);
    return `${count(now)} ${what}, ${count(initial)} at first (level ${count(level)}, split pointer ${count(pointer)})`;
}

function mapText(map) {
    const known = map.partitioner === 'murmur2' || map.partitioner === 'crc32';
    const keys = known ? `keys are placed by ${map.partitioner}`
        : `how keys are placed is ${map.partitioner}: ${map.partitioner_reason ?? 'no reason is given'}`;
    return `${countsText(map, 'partitions')}; ${countsText(map, 'processors')}; version ${count(map.version)}; ${keys}. ` +
        'The first counts are kept for ever: where a key belongs follows from them.';
}

function keyText(placed) {
    return `${placed.key} of ${placed.job}: ${placed.partitioner} gives ${placed.hash}, bucket ${placed.path.join(', then ')}: ` +
        `partition ${placed.partition}, processor ${placed.processor}, agent ${placed.agent ?? 'none'}.`;
}

/* Time since then by the coordinator's clock; the browser's may be wrong. */
function since(text, now) {
    return text === null ? '?' : duration(now - Date.parse(text));
}

/* Of what need not have been. */
function known(ms) {
    return ms === null ? '' : duration(ms);
}

// ---- the tables

function makeTables() {
    const at = (id) => document.getElementById(id);
    return {
        problems: new Table(at('problems'), 'Problems', 'None that is known.', [
            {title: 'Severity', value: (p) => ({text: p.severity, className: p.severity === 'critical' ? 'bad' : 'warn'})},
            {title: 'Problem', value: (p) => p.code},
            {title: 'Job', value: (p) => p.job},
            {title: 'Processor', number: true, value: (p) => (p.processor === null ? 'all' : String(p.processor))},
            {title: 'Agent', value: (p) => p.agent ?? ''},
            {title: 'For', number: true, value: (p) => since(p.since_at, p.now)},
            {title: 'What happened', wide: true, value: (p) => p.detail},
            {title: 'What to do', wide: true, value: (p) => p.action},
        ]),
        moving: new Table(at('moving'), 'Hand-overs under way', 'Nothing.', [
            {title: 'Job', value: (h) => h.job},
            {title: 'Processor', number: true, value: (h) => String(h.processor)},
            {title: 'Kind', value: (h) => kindText(h)},
            {title: 'From', value: (h) => h.source},
            {title: 'To', value: (h) => h.target},
            {title: 'State', value: (h) => h.state + (h.forced ? ', forced' : '')},
            {title: 'For', number: true, value: (h) => since(h.changed_at, h.now)},
            {title: 'T2 towards T1', value: (h) => learnedCell(h, h.processor_view)},
            {title: 'Records to go', number: true, value: (h) => count(h.replay_records)},
            {title: 'Learns/s', number: true, value: (h) => count(h.replayed_per_s)},
            {title: 'Ready in', number: true, value: (h) => duration(h.eta_ms)},
            {title: 'Waits for', wide: true, value: (h) => h.waiting ?? ''},
            {title: 'Number', number: true, value: (h) => String(h.id)},
        ]),
        operating: new Table(at('operating'), 'Operations under way', 'Nothing.', [
            {title: 'Operation', value: (line) => line.title},
            {title: 'How it goes', wide: true, value: (line) => line.value},
        ]),
        operated: new Table(at('operated'), 'Operations that have ended', 'Nothing.', [
            {title: 'Operation', value: (o) => o.id},
            {title: 'Ended', number: true, value: (o) => `${since(o.updated_at, o.now)} ago`},
            {title: 'Job', value: (o) => o.job},
            {title: 'What', value: (o) => operationText(o)},
            {title: 'End', value: (o) => stateCell(o.state)},
            {title: 'By', value: (o) => o.actor ?? '?'},
            {title: 'Why', wide: true, value: (o) => o.reason ?? ''},
            {title: 'What happened', wide: true, value: (o) => o.error ?? ''},
            {title: 'What to do', wide: true, value: (o) => actionCell(o)},
        ]),
        windows: new Table(at('windows'), 'Settle windows of the job', 'None is open.', [
            {title: 'Topic', value: (w) => w.topic},
            {title: 'Partition', number: true, value: (w) => String(w.partition)},
            {title: 'Processor', number: true, value: (w) => String(w.processor)},
            {title: 'Window', value: (w) => windowCell(w)},
            {title: 'For', number: true, value: (w) => since(w.window_at, w.now)},
            {title: 'Old-count records', number: true, value: (w) => count(w.old_records)},
            {title: 'Last one', number: true, value: (w) => (w.old_at === null ? '' : `${since(w.old_at, w.now)} ago`)},
            {title: 'Ends', wide: true, value: (w) => (w.window === 'open' ? closingText(w.window_closes_at, w.now) : '')},
            {title: 'What to do', wide: true, value: (w) => (w.window_stale ? {text: STALE, className: 'warn'} : '')},
        ]),
        map: new Table(at('map'), 'Partitions of each processor', 'Nothing.', [
            {title: 'Processor', number: true, value: (m) => String(m.processor)},
            {title: 'Split off', number: true, value: (m) => (m.parent === null ? '' : String(m.parent))},
            {title: 'Agent', value: (m) => m.agent ?? 'none'},
            {title: 'Partitions', wide: true, value: (m) => ranges(m.partitions)},
        ]),
        jobs: new Table(at('jobs'), 'Jobs', 'There is none yet.', [
            {title: 'Job', value: (s) => s.name},
            {title: 'State', value: (s) => stateCell(s.paused && s.state === 'running' ? 'paused' : s.state)},
            {title: 'Active', number: true, value: (s) => `${count(s.processors_active)} of ${count(s.processors)}`},
            {title: 'Replaying', number: true, value: (s) => count(s.processors_replaying)},
            {title: 'Without agent', number: true, value: (s) => badCell(s.processors_unassigned)},
            {title: 'Failed', number: true, value: (s) => badCell(s.processors_failed)},
            {title: 'Moving', number: true, value: (s) => count(s.handoffs_running)},
            {title: 'Standbys', number: true, value: (s) => standbysCell(s)},
            {title: 'Agents', number: true, value: (s) => count(s.agents)},
            {title: 'Lag', number: true, value: (s) => count(s.lag_records)},
            {title: 'Worst partition', number: true, value: (s) => count(s.lag_records_max)},
            {title: 'Records/s', number: true, value: (s) => count(s.records_per_s)},
            {title: 'Replays/s', number: true, value: (s) => count(s.replayed_per_s)},
            {title: 'State in MiB', number: true, value: (s) => count(s.state_bytes / 1048576)},
            {title: 'Settle windows', value: (s) => windowsCell(s)},
            {title: 'Problems', number: true, value: (s) => badCell(s.problems)},
        ]),
        processors: new Table(at('processors'), 'Processors of the job, by agent', 'None.', [
            {title: 'Processor', number: true, value: (p) => String(p.processor)},
            {title: 'State', value: (p) => stateCell(p.state)},
            {title: 'Epoch', number: true, value: (p) => count(p.epoch)},
            {title: 'T1', number: true, value: (p) => count(sumOwned(p, 't1'))},
            {title: 'T2', number: true, value: (p) => count(sumOwned(p, 't2'))},
            {title: 'Lag', number: true, value: (p) => count(p.lag_records)},
            {title: 'Records/s', number: true, value: (p) => count(p.records_per_s)},
            {title: 'Replays/s', number: true, value: (p) => count(p.replayed_per_s)},
            {title: 'Ready in', number: true, value: (p) => (p.state === 'active' ? '' : duration(p.eta_ms))},
            {title: 'Standbys', value: (p) => p.standbys.map(standbyText).join(', ')},
            {title: 'Why', wide: true, value: (p) => p.reason ?? ''},
        ]),
        agents: new Table(at('agents'), 'Agents', 'None has registered yet.', [
            {title: 'Agent', value: (a) => a.agent_id},
            {title: 'State', value: (a) => stateCell(a.state)},
            {title: 'Tasks', number: true, value: (a) => `${count(a.tasks)} of ${count(a.capacity)}`},
            {title: 'Active', number: true, value: (a) => count(a.tasks_active)},
            {title: 'Leaving', value: (a) => leavingCell(a)},
            {title: 'Left', number: true, value: (a) => leftCell(a)},
            {title: 'Gone in', number: true, value: (a) => goneInCell(a)},
            {title: 'Slowest', wide: true, value: (a) => slowestCell(a)},
            {title: 'Heard of', number: true, value: (a) => (a.seen_at === null ? '?' : `${since(a.seen_at, a.now)} ago`)},
            {title: 'Version', value: (a) => a.version},
            {title: 'Address', value: (a) => a.address ?? ''},
            {title: 'Tags', wide: true, value: (a) => a.tags.map((tag) => `${tag.name}=${tag.value}`).join(', ')},
        ]),
        moved: new Table(at('moved'), 'Hand-overs that have ended', 'Nothing.', [
            {title: 'Number', number: true, value: (h) => String(h.id)},
            {title: 'Ended', number: true, value: (h) => `${since(h.changed_at, h.now)} ago`},
            {title: 'Job', value: (h) => h.job},
            {title: 'Processor', number: true, value: (h) => String(h.processor)},
            {title: 'Kind', value: (h) => kindText(h)},
            {title: 'From', value: (h) => h.source},
            {title: 'To', value: (h) => h.target},
            {title: 'End', value: (h) => stateCell(h.state)},
            {title: 'Forced', value: (h) => (h.forced ? 'yes' : '')},
            {title: 'Learned in', number: true, value: (h) => known(h.learning_ms)},
            {title: 'No output for', number: true, value: (h) => known(h.output_gap_ms)},
            {title: 'Why', wide: true, value: (h) => h.error ?? h.reason},
        ]),
        events: new Table(at('events'), 'Events', 'None.', [
            {title: 'At', value: (e) => e.at},
            {title: 'What', value: (e) => e.kind},
            {title: 'Job', value: (e) => e.job ?? ''},
            {title: 'Processor', number: true, value: (e) => (e.processor === null ? '' : String(e.processor))},
            {title: 'Agent', value: (e) => e.agent ?? ''},
            {title: 'By', value: (e) => e.actor},
            {title: 'Detail', wide: true, value: (e) => e.detail},
        ]),
    };
}

// ---- reading

class Refused extends Error {
    constructor(status, text) {
        super(text);
        this.status = status;
    }
}

/* The coordinator's clock less the browser's, by its last answer. */
let skew_ms = 0;

/* `plain`: an answer that is no refusal is not JSON, and of no interest. */
async function read(path, plain = false) {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
    try {
        const reply = await fetch(path, {signal: abort.signal, cache: 'no-store'});
        const date = Date.parse(reply.headers.get('Date') ?? '');
        if (!Number.isNaN(date)) {
            skew_ms = date - Date.now();
        }
        const body = plain && reply.ok ? null : await reply.json();
        if (!reply.ok) {
            throw new Refused(reply.status, `${body.title ?? 'error'}: ${body.detail ?? reply.status}`);
        }
        return body;
    } finally {
        clearTimeout(timer);
    }
}

async function readAll(path) {
    const items = [];
    let cursor = null;
    do {
        const query = `limit=${PAGE}${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const page = await read(`${path}${path.includes('?') ? '&' : '?'}${query}`);
        items.push(...page.items);
        cursor = page.next;
    } while (cursor !== null);
    return items;
}

/* What `load` says of each item, AT_ONCE at a time; null for what has gone meanwhile (404). */
async function each(items, load) {
    const results = new Array(items.length).fill(null);
    let next = 0;
    const work = async () => {
        while (next < items.length) {
            const index = next++;
            try {
                results[index] = await load(items[index]);
            } catch (error) {
                if (error.status !== 404) {
                    throw error;
                }
            }
        }
    };
    await Promise.all(Array.from({length: Math.min(AT_ONCE, items.length)}, work));
    return results;
}

/* Why the coordinator decides nothing at the moment (its database is old, it recovers, Kafka was never there); null: it does. */
async function readUnready() {
    try {
        await read('readyz', true);
        return null;
    } catch (error) {
        if (error.status !== 503) {
            throw error;
        }
        return error.message;
    }
}

const jobPath = (name) => `v1/jobs/${encodeURIComponent(name)}`;

/* Where the key is that somebody asked for, in words; '' when nobody has, or there is no job. */
async function readKey(job, key) {
    if (job === null || key === null) {
        return '';
    }
    try {
        const query = `key=${encodeURIComponent(key.text)}&key_encoding=${key.encoding}`;
        return keyText(await read(`${jobPath(job)}/map?${query}`));
    } catch (error) {
        if (!(error instanceof Refused)) {
            throw error;
        }
        return error.message;
    }
}

/* From the coordinator's memory: there as long as it is. `chosen`: job, or null; `key`: {text, encoding}, or null. */
async function readNow(chosen, key) {
    const unready = await readUnready();
    const jobs = (await readAll('v1/jobs')).map((job) => job.name);
    const statuses = (await each(jobs, (name) => read(`${jobPath(name)}/status`))).filter(Boolean);
    const troubled = statuses.filter((status) => status.problems > 0);
    const pages = await each(troubled, (status) => read(`${jobPath(status.name)}/problems`));
    const moving = statuses.filter((status) => status.handoffs_running > 0).map((status) => status.name);
    const job = jobs.includes(chosen) ? chosen : (troubled[0]?.name ?? moving[0] ?? jobs[0] ?? null);
    const wanted = [...new Set([...moving, ...(job === null ? [] : [job])])];
    const processors = await each(wanted, (name) => readAll(`${jobPath(name)}/processors`));
    const [map] = await each(job === null ? [] : [job], (name) => read(`${jobPath(name)}/map`));
    const placed = await readKey(job, key);
    const agents = (await read('v1/agents')).items;
    const maintenance = await read('v1/maintenance');
    const leaving = agents.filter((agent) => agent.drain !== null).map((agent) => agent.agent_id);
    const drains = await each(leaving, (agent) => read(`v1/agents/${encodeURIComponent(agent)}/drain`));
    return {
        jobs, statuses, moving, job, maintenance, unready, placed, map: map ?? null,
        problems: pages.filter(Boolean).flatMap((page) => page.items),
        processors: new Map(wanted.map((name, i) => [name, processors[i] ?? []])),
        agents, drains: new Map(leaving.map((agent, i) => [agent, drains[i]])),
    };
}

/* {running, ended}: the newest first. */
async function readOperations() {
    const known = new Map(); // one that ended between the two readings is read twice
    for (const operation of await readAll('v1/operations?state=running')) {
        known.set(operation.id, operation);
    }
    for (const operation of (await read(`v1/operations?limit=${Math.min(PAGE, OPERATED + known.size)}`)).items) {
        known.set(operation.id, operation);
    }
    const operations = [...known.values()];
    return {
        running: operations.filter((operation) => !hasEnded(operation)),
        ended: operations.filter(hasEnded).slice(0, OPERATED),
    };
}

/* From its database, which may be away when the coordinator is not. */
async function readPast(anyMoving) {
    const states = anyMoving ? RUNNING : [];
    const running = await each(states, (state) => readAll(`v1/handoffs?state=${state}`));
    const known = new Map(); // one that went from one state to the next meanwhile was read twice
    for (const handoff of running.flat()) {
        known.set(handoff.id, handoff);
    }
    const lately = (await read(`v1/handoffs?limit=${Math.min(PAGE, MOVED + known.size)}`)).items;
    for (const handoff of lately) {
        if (RUNNING.includes(handoff.state)) {
            known.set(handoff.id, handoff);
        } else {
            known.delete(handoff.id);
        }
    }
    return {
        running: [...known.values()],
        ended: lately.filter((handoff) => !RUNNING.includes(handoff.state)).slice(0, MOVED),
        operations: await readOperations(),
        events: (await read(`v1/events?last=${EVENTS}`)).items,
    };
}

// ---- showing

function byJobAndProcessor(a, b) {
    return a.job < b.job ? -1 : a.job > b.job ? 1 : a.processor - b.processor;
}

function bySeverity(a, b) {
    const rank = (problem) => (problem.severity === 'critical' ? 0 : 1);
    return rank(a) - rank(b) || byJobAndProcessor(a, b);
}

/* Processors under headings of their agents; those without one come first. */
function groupByAgent(processors, agents) {
    const states = new Map(agents.map((agent) => [agent.agent_id, agent.state]));
    const groups = new Map();
    for (const processor of processors) {
        const name = processor.agent ?? '';
        groups.set(name, [...(groups.get(name) ?? []), processor]);
    }
    const items = [];
    for (const name of [...groups.keys()].sort()) {
        const members = groups.get(name);
        const active = members.filter((member) => member.state === 'active').length;
        const title = name === '' ? 'no agent' : `${name} (${states.get(name) ?? 'not registered'})`;
        items.push({heading: `${title}: ${plural(members.length, 'processor', 'processors')}, ${active} active`, name});
        items.push(...members);
    }
    return items;
}

function maintenanceText(maintenance) {
    const why = maintenance.reason === null ? '' : `: ${maintenance.reason}`;
    const age = since(maintenance.changed_at, Date.now() + skew_ms);
    return `maintenance is on for ${age}, by ${maintenance.actor ?? '?'}${why}`;
}

function summarize(now) {
    const alive = now.agents.filter((agent) => agent.state === 'alive').length;
    const lost = now.agents.filter((agent) => agent.state === 'lost').length;
    const leaving = now.agents.filter((agent) => agent.drain !== null && !agent.safe_to_stop).length;
    const moving = now.statuses.reduce((sum, status) => sum + status.handoffs_running, 0);
    const parts = [
        plural(now.jobs.length, 'job', 'jobs'), `${plural(alive, 'agent', 'agents')} alive`,
        ...(lost > 0 ? [`${count(lost)} lost`] : []), ...(leaving > 0 ? [`${count(leaving)} leaving`] : []),
        `${plural(moving, 'processor', 'processors')} moving`,
        plural(now.problems.length, 'problem', 'problems'),
        ...(now.maintenance.enabled ? [maintenanceText(now.maintenance)] : []),
    ];
    return parts.join(', ');
}

function showOptions(select, jobs, job) {
    const known = Array.from(select.children, (option) => option.value);
    if (known.join(' ') !== jobs.join(' ')) { // names hold no blanks
        select.replaceChildren(...jobs.map((name) => {
            const option = make('option', '', name);
            option.value = name;
            return option;
        }));
    }
    if (job !== null && select.value !== job) {
        select.value = job;
    }
}

function showNow(tables, now) {
    const clock = Date.now() + skew_ms;
    const dated = (item) => ({...item, now: clock});
    put(document.getElementById('summary'), summarize(now));
    put(document.querySelector('title'), now.problems.length > 0 ? `(${now.problems.length}) baton` : 'baton');
    tables.problems.show(now.problems.map(dated).sort(bySeverity),
        (problem) => `${problem.job} ${problem.processor} ${problem.code} ${problem.agent}`);
    tables.jobs.show(now.statuses, (status) => status.name);
    tables.agents.show(now.agents.map((agent) => ({...dated(agent), drain_view: now.drains.get(agent.agent_id) ?? null})),
        (agent) => agent.agent_id);
    showOptions(document.getElementById('job'), now.jobs, now.job);
    tables.processors.show(groupByAgent(now.processors.get(now.job) ?? [], now.agents),
        (item) => (item.heading !== undefined ? `agent ${item.name}` : `${item.job} ${item.processor}`));
    showJob(tables, now, dated);
}

/* Settle windows and map of the chosen job. */
function showJob(tables, now, dated) {
    const status = now.statuses.find((each) => each.name === now.job);
    put(document.getElementById('windows-said'), status ? windowsText(status, Date.now() + skew_ms) : '');
    tables.windows.show(listWindows(now.processors.get(now.job) ?? []).map(dated),
        (item) => `${now.job} ${item.topic} ${item.partition}`);
    put(document.getElementById('map-said'), now.map ? mapText(now.map) : '');
    put(document.getElementById('key-said'), now.placed);
    tables.map.show(now.map ? listMap(now.map) : [], (item) => `${now.job} ${item.processor}`);
}

function showPast(tables, past, now) {
    const clock = Date.now() + skew_ms;
    const moving = past.running.map((handoff) => ({
        ...handoff,
        now: clock,
        processor_view: now.processors.get(handoff.job)?.[handoff.processor],
    }));
    tables.moving.show(moving.sort(byJobAndProcessor), (handoff) => handoff.id);
    const splits = new Map(past.running.map((handoff) => [handoff.id, handoff]));
    const lines = past.operations.running.flatMap((operation) => operationLines(operation, splits.get(operation.handoff), clock));
    tables.operating.show(lines, (line) => `${line.id} ${line.heading === undefined ? line.title : ''}`);
    tables.operated.show(past.operations.ended.map((operation) => ({...operation, now: clock})), (operation) => operation.id);
    tables.moved.show(past.ended.map((handoff) => ({...handoff, now: clock})), (handoff) => handoff.id);
    tables.events.show([...past.events].reverse(), (event) => event.id);
}

/* The one line that says whether what is shown is true. */
class Link {
    constructor() {
        this.readAt = null;
        this.unready = null;
        this.trouble = null;
    }

    good(unready, trouble) {
        this.readAt = Date.now();
        this.unready = unready;
        this.trouble = trouble;
        this.away = false;
        this.tick();
    }

    bad(error) {
        this.trouble = error.name === 'AbortError' ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message;
        this.away = true;
        this.tick();
    }

    text() {
        if (this.away) {
            return `The coordinator does not answer (${this.trouble}). Agents go on working.`;
        }
        const doubts = [
            ...(this.unready === null ? [] : [`it is not ready, so nothing is decided: ${this.unready}`]),
            ...(this.trouble === null ? [] : [`without hand-overs, operations and events: ${this.trouble}`]),
        ];
        return ['live', ...doubts].join(', but ');
    }

    /* The age is apart from the rest: it changes every second, and nobody wants that read out. */
    ageText() {
        if (this.readAt === null) {
            return '';
        }
        const read = `read at ${clockTime(new Date(this.readAt))}`;
        return this.away ? `What is shown was ${read}, ${duration(Date.now() - this.readAt)} ago.` : read;
    }

    tick() {
        const line = document.getElementById('link');
        put(line, this.text());
        line.className = this.away || this.unready !== null || this.trouble !== null ? 'away' : '';
        put(document.getElementById('age'), this.ageText());
        const main = document.querySelector('main');
        main.hidden = this.readAt === null; // nothing is known yet, not even that there is nothing
        main.className = this.away ? 'old' : '';
    }
}

// ---- life

const page = {tables: null, link: new Link(), chosen: null, key: null, timer: null, reading: false, again: false};

async function readAndShow() {
    const now = await readNow(page.chosen, page.key);
    showNow(page.tables, now);
    let trouble = null;
    try {
        showPast(page.tables, await readPast(now.moving.length > 0), now);
    } catch (error) {
        if (!(error instanceof Refused)) {
            throw error;
        }
        trouble = error.message;
    }
    page.link.good(now.unready, trouble);
}

/* One reading at a time; who asks during one gets another right after it. */
async function refresh() {
    if (page.reading) {
        page.again = true;
        return;
    }
    clearTimeout(page.timer);
    page.reading = true;
    const began = Date.now();
    do {
        page.again = false;
        try {
            await readAndShow();
        } catch (error) {
            page.link.bad(error);
        }
    } while (page.again);
    page.reading = false;
    if (!document.hidden) {
        page.timer = setTimeout(refresh, Math.max(PERIOD_MS, 2 * (Date.now() - began)));
    }
}

function start() {
    page.tables = makeTables();
    page.chosen = location.hash.slice(1) || null; // names of jobs need no encoding
    document.getElementById('job').addEventListener('change', (event) => {
        page.chosen = event.target.value;
        location.hash = page.chosen; // a link to the page keeps the choice
        refresh();
    });
    document.getElementById('key-form').addEventListener('submit', (event) => {
        event.preventDefault(); // it goes nowhere: the answer is a part of the next reading
        page.key = {text: document.getElementById('key').value, encoding: document.getElementById('key-encoding').value};
        refresh();
    });
    document.addEventListener('visibilitychange', () => {
        if (!document.hidden) {
            refresh();
        }
    });
    setInterval(() => page.link.tick(), 1000);
    return refresh();
}

start();
