/*
 * As much of a browser as the dashboard's script needs, for QuickJS. Strict: what would make markup of a text is an error, as
 * is reading a field that an answer does not have.
 */
'use strict';

const dom = {made: [], timers: new Map(), nextTimer: 1};

function forbid(target, ...names) {
    for (const name of names) {
        Object.defineProperty(target, name, {
            get() { throw new Error(`${name} is read`); },
            set() { throw new Error(`${name} is written`); },
        });
    }
}

class Element {
    constructor(tag) {
        this.tagName = tag.toUpperCase();
        this.children = [];
        this.parent = null;
        this.attributes = {};
        this.listeners = {};
        this.className = '';
        this.hidden = false;
        this.ownText = '';
        dom.made.push(this);
    }

    get textContent() {
        return this.ownText + this.children.map((child) => child.textContent).join('');
    }

    set textContent(text) {
        if (typeof text !== 'string') {
            throw new Error(`the text of <${this.tagName}> becomes ${text}`);
        }
        this.replaceChildren();
        this.ownText = text;
    }

    get firstChild() {
        return this.children[0] ?? null;
    }

    get nextSibling() {
        return this.parent.children[this.parent.children.indexOf(this) + 1] ?? null;
    }

    append(...nodes) {
        for (const node of nodes) {
            this.insertBefore(node, null);
        }
    }

    insertBefore(node, before) {
        if (!(node instanceof Element)) {
            throw new Error(`<${this.tagName}> gets ${node}`);
        }
        node.remove();
        const index = before === null ? this.children.length : this.children.indexOf(before);
        if (index < 0) {
            throw new Error('insertBefore a node that is not here');
        }
        this.children.splice(index, 0, node);
        node.parent = this;
    }

    replaceChildren(...nodes) {
        for (const child of [...this.children]) {
            child.remove();
        }
        this.ownText = '';
        this.append(...nodes);
    }

    remove() {
        if (this.parent) {
            this.parent.children.splice(this.parent.children.indexOf(this), 1);
            this.parent = null;
        }
    }

    setAttribute(name, value) {
        if (!/^(role|aria-[a-z]+)$/.test(name)) {
            throw new Error(`attribute ${name} is set`);
        }
        this.attributes[name] = String(value);
    }

    addEventListener(name, listener) {
        this.listeners[name] = listener;
    }
}
forbid(Element.prototype, 'innerHTML', 'outerHTML', 'innerText', 'srcdoc', 'style', 'href', 'src', 'onclick');
for (const name of ['insertAdjacentHTML', 'setHTML', 'attachShadow']) {
    Element.prototype[name] = () => { throw new Error(`${name} is called`); };
}

const parts = {}; // of index.html, by id; those without, by tag
const document = {
    hidden: false,
    listeners: {},
    createElement: (tag) => new Element(tag),
    getElementById(id) {
        if (!parts[`#${id}`]) {
            throw new Error(`the page has no #${id}`);
        }
        return parts[`#${id}`];
    },
    querySelector(tag) {
        if (!parts[tag]) {
            throw new Error(`the page has no <${tag}>`);
        }
        return parts[tag];
    },
    addEventListener(name, listener) { this.listeners[name] = listener; },
};
const location = {hash: '', href: 'http://baton.example/prefix/#orders'};

function addPart(tag, id) {
    const element = new Element(tag);
    parts[id ? `#${id}` : tag] = element;
}

function setTimeout(call, ms) {
    dom.timers.set(dom.nextTimer, {call, ms});
    return dom.nextTimer++;
}
const clearTimeout = (timer) => dom.timers.delete(timer);
const setInterval = setTimeout;

class AbortController {
    constructor() { this.signal = {}; }
    abort() {}
}

/* Answers have all their fields, so one that is not there is a mistake of the script. */
function strict(value, where) {
    if (Array.isArray(value)) {
        return value.map((item, i) => strict(item, `${where}[${i}]`));
    }
    if (value === null || typeof value !== 'object') {
        return value;
    }
    const copy = {};
    for (const name of Object.keys(value)) {
        copy[name] = strict(value[name], `${where}.${name}`);
    }
    return new Proxy(copy, {
        get(target, name) {
            if (typeof name === 'string' && !(name in target) && !['then', 'toJSON', 'heading'].includes(name)) {
                throw new Error(`${where} has no field ${name}`);
            }
            return target[name];
        },
    });
}

async function fetch(path, options) {
    if (/^([a-z]+:|\/)/.test(path) || options.method) {
        throw new Error(`not a GET of a relative path: ${path}`);
    }
    const reply = JSON.parse(pythonFetch(path));
    if (reply.error) {
        throw new TypeError(reply.error);
    }
    return {
        ok: reply.status < 400,
        status: reply.status,
        headers: {get: (name) => (name === 'Date' ? reply.date : null)},
        json: async () => strict(JSON.parse(reply.body), path),
    };
}

/* What a person sees, as JSON: {id: text or rows of cells}. */
function seen(id) {
    const rows = [];
    const walk = (node) => {
        if (node.hidden) {
            return;
        }
        if (node.tagName === 'TR') {
            rows.push(node.children.map((cell) => cell.textContent.trim()));
        }
        node.children.forEach(walk);
    };
    walk(document.getElementById(id));
    return JSON.stringify(rows);
}
