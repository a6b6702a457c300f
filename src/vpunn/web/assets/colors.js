// Colours: a hue for every branch, scales for numbers, a fixed set for categories; all told apart without red and green.

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const WARM_LIGHT = ["#e9e6e0", "#fdeec2", "#fed98e", "#fdb863", "#f28e2b", "#d95f0e", "#a63d04", "#7a2a02"];
const WARM_DARK = ["#23262b", "#4a3410", "#7a5210", "#b37a12", "#e69f00", "#ffc247", "#ffe08a", "#fff6d6"];
// Okabe and Ito's set, which keeps its members apart for every kind of colour vision.
const OKABE = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999"];

const HUES = 360;
const SHADES = 12;

export function pack(r, g, b) { return (255 << 24 | b << 16 | g << 8 | r) >>> 0; }

function parse(hex) { return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)); }

function ramp(anchors, steps) {
  const colours = anchors.map(parse), out = new Uint32Array(steps);
  for (let k = 0; k < steps; k++) {
    const t = (k / (steps - 1)) * (colours.length - 1), i = Math.min(Math.floor(t), colours.length - 2);
    const mix = [0, 1, 2].map((c) => Math.round(colours[i][c] + (colours[i + 1][c] - colours[i][c]) * (t - i)));
    out[k] = pack(...mix);
  }
  return out;
}

// OKLCH to sRGB: equal steps look equally far apart.
function oklch(L, C, h) {
  const a = C * Math.cos(h), b = C * Math.sin(h);
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return pack(...linear.map((v) => {
    const c = Math.min(Math.max(v, 0), 1);
    return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
  }));
}

export function toCss(colour) { return `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`; }

const LINEAR = Float64Array.from({ length: 256 }, (_, k) => (k <= 10 ? k / 3294.6 : ((k / 255 + 0.055) / 1.055) ** 2.4));

// Whether white letters stand out more than black ones (WCAG's contrast).
export function isDark(colour) {
  return 0.2126 * LINEAR[colour & 255] + 0.7152 * LINEAR[(colour >> 8) & 255] + 0.0722 * LINEAR[(colour >> 16) & 255] < 0.179;
}

function hueOf(h) { return (h / HUES) * 2 * Math.PI * 0.94 + 0.4; }

// Where the hues of a branch begin, twice, how many there are for half a leaf, and the node behind its last one.
function spread(shape, root) {
  const from = shape.from(root), wide = Math.max(shape.to(root) - from, 1e-300);
  return [2 * from, HUES / (2 * wide), root + shape.size[root]];
}

export class Palette {
  constructor(dark) {
    this.dark = dark;
    this.background = dark ? pack(22, 24, 28) : pack(255, 255, 255);
    this.text = dark ? "#e8e6e1" : "#1d2126";
    this.faint = dark ? "#8b9099" : "#6b7078";
    this.accent = dark ? "#7cc4ff" : "#0b5cad";
    this.second = dark ? "#ffb454" : "#994500";
    this.ground = dark ? "#1b1e23" : "#f6f6f4";
    this.thread = dark ? "#565c66" : "#b9bcc2";
    this.nothing = dark ? pack(46, 50, 56) : pack(228, 229, 231);
    this.numbers = ramp(CIVIDIS, 255);
    this.categories = Uint32Array.from(OKABE, (hex) => pack(...parse(hex)));
    this.warm = ramp(dark ? WARM_DARK : WARM_LIGHT, 256);
    this.dots = Uint32Array.from({ length: HUES }, (_, h) => oklch(this.dark ? 0.72 : 0.6, 0.13, hueOf(h)));
    this.branch = new Uint32Array(SHADES * HUES);
    for (let d = 0; d < SHADES; d++) {
      const C = d === 0 ? 0.012 : Math.min(0.04 + 0.009 * d, 0.105), L = dark ? 0.36 + 0.012 * d : 0.92 - 0.012 * d;
      for (let h = 0; h < HUES; h++) this.branch[d * HUES + h] = oklch(L, C, hueOf(h));
    }
  }

  // A node's hue is its place among the leaves of the opened branch, so what lies near looks alike; deeper is stronger, outside is grey.
  ofBranch(shape, root = 0) {
    const { pos, size, depth } = shape, { branch, nothing } = this, [from, scale, last] = spread(shape, root), above = depth[root];
    return (i) => {
      if (i < root || i >= last) return nothing;
      const d = depth[i] - above, shade = d < SHADES ? d : SHADES - 1;
      return branch[shade * HUES + Math.min((pos[i] + pos[i + size[i]] - from) * scale, HUES - 1) | 0];
    };
  }

  // The same hues in one strength, for dots on a ground.
  ofDots(shape, root = 0) {
    const { pos, size } = shape, { dots, nothing } = this, [from, scale, last] = spread(shape, root);
    return (i) => (i < root || i >= last ? nothing : dots[Math.min((pos[i] + pos[i + size[i]] - from) * scale, HUES - 1) | 0]);
  }

  ofLayer(bytes, kind) {
    const { numbers, categories, nothing } = this, set = kind === "category" ? categories : numbers;
    return (i) => (bytes[i] === 255 ? nothing : set[bytes[i]]);
  }

  // Probabilities by their square root: 31 %, 51 % and 89 % are told apart, and one in a hundred is seen.
  ofProbability(p) { return this.warm[Math.round(255 * Math.sqrt(Math.min(Math.max(p, 0), 1)))]; }
}
