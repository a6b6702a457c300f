// What a pointer does to the view: wheel and pinch zoom, dragging moves, a click chooses, two open, the middle one branches off.

export function listen(view) {
  const { canvas, minimap, told } = view, held = new Map();
  let travelled = 0, apart = 0;
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const spread = () => { const [p, q] = [...held.values()]; return Math.hypot(p[0] - q[0], p[1] - q[1]); };
  const hover = (i, at) => { if (i !== view.hover) { view.hover = i; told.hovered(i, at); view.draw(); } };

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) view.pan(-event.deltaY * lines, 0);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) * 2) view.pan(-event.deltaX * lines, 0);
    else view.zoom(Math.exp(Math.max(Math.min(event.deltaY * lines, 300), -300) * (event.ctrlKey ? 0.01 : 0.0022)), ...spot(event));
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    held.set(event.pointerId, spot(event));
    travelled = 0;
    if (held.size === 2) apart = spread();
  });

  canvas.addEventListener("pointermove", (event) => {
    const now = spot(event), last = held.get(event.pointerId);
    if (!last) { hover(view.layout.nodeAt(...now), now); return; }
    travelled += Math.hypot(now[0] - last[0], now[1] - last[1]);
    if (travelled > 4 && !canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, now);
    if (held.size === 2) {
      const gap = spread(), [p, q] = [...held.values()];
      if (gap > 10 && apart > 10) view.zoom(apart / gap, (p[0] + q[0]) / 2, (p[1] + q[1]) / 2);
      apart = gap;
    } else if (travelled > 4) view.pan(now[0] - last[0], now[1] - last[1]);
  });

  const release = (event) => {
    const last = held.get(event.pointerId);
    held.delete(event.pointerId);
    if (!last || event.type !== "pointerup" || travelled > 4) return;
    const i = view.layout.nodeAt(...last);
    if (i >= 0) told.picked(i);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { if (!held.size) hover(-1); });
  canvas.addEventListener("dblclick", (event) => { const i = view.layout.nodeAt(...spot(event)); if (i >= 0) told.opened(i); });
  canvas.addEventListener("auxclick", (event) => { const i = view.layout.nodeAt(...spot(event)); if (event.button === 1 && i >= 0) told.branched(i); });
  minimap.addEventListener("pointerdown", (event) => {
    const box = minimap.getBoundingClientRect();
    view.goTo(view.layout.seek((event.clientY - box.top) / box.height));
  });
}
