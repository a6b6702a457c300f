// Answers from the server, or from the notebook around this frame.

export class Problem extends Error {}

async function checked(response) {
  if (response.ok) return response;
  let said = `the server answered ${response.status}`;
  try { said = (await response.json()).error || said; } catch { /* not JSON: the status has to do */ }
  throw new Problem(said);
}

function address(path, params) {
  const query = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== null));
  return `api/${path}${query.size ? "?" + query : ""}`;
}

export class ServerApi {
  constructor() { this.kind = "server"; }
  async send(path, params, options) {
    let response;
    try { response = await fetch(address(path, params), options); } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem("the server does not answer; is it still running?");
    }
    return checked(response);
  }
  async json(path, params, signal) { return (await this.send(path, params, { signal })).json(); }
  async bytes(path, params) { return (await this.send(path, params)).arrayBuffer(); }
  async post(path, body, kind, params, signal) {
    return (await this.send(path, params, { method: "POST", body, headers: { "Content-Type": kind }, signal })).json();
  }
  async blob(path, params) { return (await this.send(path, params)).blob(); }
}

// The same questions through a notebook's channel: the frame's parent passes them on.
export class FrameApi {
  constructor() {
    this.kind = "frame";
    this.waiting = new Map();
    this.last = 0;
    addEventListener("message", (event) => {
      const wait = event.source === parent && event.data && this.waiting.get(event.data.vpunn);
      if (!wait) return;
      this.waiting.delete(event.data.vpunn);
      wait(event.data);
    });
  }
  async send(path, params, body, kind) {
    const id = ++this.last;
    const answer = new Promise((resolve) => this.waiting.set(id, resolve));
    const query = Object.fromEntries(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== null).map(([k, v]) => [k, String(v)]));
    parent.postMessage({ vpunn: id, path: `/api/${path}`, query, body: body || null, kind: kind || "" }, "*");
    const { status, data } = await answer;
    if (status < 400) return data;
    let said = `the notebook answered ${status}`;
    try { said = JSON.parse(new TextDecoder().decode(data)).error; } catch { /* as above */ }
    throw new Problem(said);
  }
  async json(path, params) { return JSON.parse(new TextDecoder().decode(await this.send(path, params))); }
  async bytes(path, params) { const data = await this.send(path, params); return data.slice().buffer; }
  async post(path, body, kind, params) { return JSON.parse(new TextDecoder().decode(await this.send(path, params, body, kind))); }
  async blob(path, params) { return new Blob([await this.send(path, params)]); }
}
