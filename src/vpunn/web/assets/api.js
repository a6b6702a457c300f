// Where answers come from: the server, the notebook around this frame, or the file itself.
import { FileApi } from "./saved.js";
import { FrameApi, ServerApi } from "./server.js";

export async function openApi() {
  const setup = document.getElementById("setup");
  if (!setup) return new ServerApi();
  const { mode, summary } = JSON.parse(setup.textContent);
  if (mode === "frame") return new FrameApi();
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new FileApi(summary, JSON.parse(await new Response(stream).text()));
}
