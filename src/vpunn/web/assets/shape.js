// The shape of a tree, derived from the depth of each node in preorder: nothing else has to travel.

export class Shape {
  constructor(depth) {
    const n = depth.length;
    this.n = n;
    this.depth = depth;
    this.parent = new Int32Array(n);
    this.size = new Int32Array(n).fill(1);
    let deepest = 0;
    for (let i = 0; i < n; i++) if (depth[i] > deepest) deepest = depth[i];
    this.maxDepth = deepest;
    const open = new Int32Array(deepest + 1);
    const count = new Int32Array(deepest + 2);
    this.parent[0] = -1;
    for (let i = 0; i < n; i++) {
      const d = depth[i];
      if (d) this.parent[i] = open[d - 1];
      open[d] = i;
      count[d + 1]++;
    }
    for (let i = n - 1; i > 0; i--) this.size[this.parent[i]] += this.size[i];
    // nodes by depth: level d is ids[start[d]] … ids[start[d + 1] - 1], in preorder
    for (let d = 0; d <= deepest; d++) count[d + 1] += count[d];
    this.start = count.slice();
    this.ids = new Int32Array(n);
    for (let i = 0; i < n; i++) this.ids[count[depth[i]]++] = i;
    this.setWeights(null);
  }

  // Node i covers [pos[i], pos[i + size[i]]): the leaves below it, or the sum of weights given for the nodes in it.
  setWeights(weights) {
    const n = this.n;
    const pos = weights ? new Float64Array(n + 1) : new Int32Array(n + 1);
    for (let i = 0; i < n; i++) pos[i + 1] = pos[i] + (weights ? weights[i] : this.size[i] === 1 ? 1 : 0);
    if (!(pos[n] > 0)) return false;
    this.pos = pos;
    this.total = pos[n];
    return true;
  }

  // Levels below node i.
  below(i) {
    if (!this.heights) {
      this.heights = new Uint32Array(this.n);
      for (let j = this.n - 1; j > 0; j--) { const p = this.parent[j]; if (this.heights[p] <= this.heights[j]) this.heights[p] = this.heights[j] + 1; }
    }
    return this.heights[i];
  }

  from(i) { return this.pos[i]; }
  to(i) { return this.pos[i + this.size[i]]; }

  // Index, in its level, of the last node of depth d that starts at or before x (start[d] - 1 if there is none).
  lastBefore(d, x) {
    const { ids, pos } = this;
    let low = this.start[d], high = this.start[d + 1];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (pos[ids[mid]] <= x) low = mid + 1; else high = mid;
    }
    return low - 1;
  }

  // The next index after k worth looking at when everything before x is one dot: the first node of the level that starts at
  // or after x, or the one before it if that reaches over x. Doubling steps, then halving.
  skipTo(k, end, x) {
    const { ids, pos } = this, from = k;
    let step = 1;
    while (k + step < end && pos[ids[k + step]] < x) { k += step; step *= 2; }
    let low = k + 1, high = Math.min(k + step, end);
    while (low < high) {
      const mid = (low + high) >> 1;
      if (pos[ids[mid]] < x) low = mid + 1; else high = mid;
    }
    return low - 1 > from && this.to(ids[low - 1]) > x ? low - 1 : low;
  }

  // The node of depth d that covers x, or -1.
  at(d, x) {
    if (d < 0 || d > this.maxDepth || x < 0 || x >= this.total) return -1;
    const k = this.lastBefore(d, x);
    if (k < this.start[d]) return -1;
    const i = this.ids[k];
    return this.to(i) > x ? i : -1;
  }

  ancestor(i, d) {
    while (this.depth[i] > d) i = this.parent[i];
    return i;
  }

  contains(a, b) { return b >= a && b < a + this.size[a]; }

  lca(a, b) {
    while (!this.contains(a, b)) a = this.parent[a];
    return a;
  }

  path(i) {
    const chain = [];
    for (; i >= 0; i = this.parent[i]) chain.push(i);
    return chain.reverse();
  }

  // The node's place in its level.
  rank(i) {
    let low = this.start[this.depth[i]], high = this.start[this.depth[i] + 1];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.ids[mid] < i) low = mid + 1; else high = mid;
    }
    return low;
  }

  // The neighbour in the level if it has the same parent, else -1.
  sibling(i, step) {
    const k = this.rank(i) + step, d = this.depth[i];
    if (k < this.start[d] || k >= this.start[d + 1]) return -1;
    const j = this.ids[k];
    return this.parent[j] === this.parent[i] ? j : -1;
  }

  children(i) {
    const found = [];
    for (let j = i + 1, end = i + this.size[i]; j < end; j += this.size[j]) found.push(j);
    return found;
  }

  onlyChild(i) { return this.size[i] > 1 && this.size[i + 1] === this.size[i] - 1; }

  // The children that hold the most leaves, at most so many, and how many children there are.
  largest(i, most) {
    let found = [], total = 0;
    for (let j = i + 1, end = i + this.size[i], least = -1; j < end; j += this.size[j]) {
      total++;
      const wide = this.to(j) - this.from(j);
      if (found.length === most && wide <= least) continue;
      found = [...found, j].sort((p, q) => this.to(q) - this.from(q) - this.to(p) + this.from(p)).slice(0, most);
      least = this.to(found.at(-1)) - this.from(found.at(-1));
    }
    return { found, total };
  }

  // Leaves below node i, counted up to `most`.
  leaves(i, most) {
    let found = 0;
    for (let j = i, end = i + this.size[i]; j < end && found < most; j++) if (this.size[j] === 1) found++;
    return found;
  }

  digit(i) { return i ? this.rank(i) - this.firstRank(this.parent[i]) + 1 : 0; }
  firstRank(p) { return this.rank(p + 1); }

  // Levels below node i that are worth a column: those that hold at least one node in fifty of the widest one.
  levelsBelow(i) {
    const counts = [], a = i, b = i + this.size[i];
    let widest = 1;
    for (let d = this.depth[i]; d <= this.maxDepth; d++) {
      const { ids } = this;
      let low = this.start[d], high = this.start[d + 1];
      const search = (x) => {
        let l = low, h = high;
        while (l < h) { const m = (l + h) >> 1; if (ids[m] < x) l = m + 1; else h = m; }
        return l;
      };
      const count = search(b) - search(a);
      if (!count) break;
      widest = Math.max(widest, count);
      counts.push(count);
    }
    let last = counts.length;
    while (last > 1 && counts[last - 1] * 50 < widest) last--;
    return last;
  }
}

export function unpackDepths(buffer, width) {
  return width === 1 ? new Uint8Array(buffer) : width === 2 ? new Uint16Array(buffer) : new Uint32Array(buffer);
}
