// The video that a frame is from, played from the time of the frame. Loaded when it is first asked for.

import { complain } from "./status.js";

export function play(address, seconds) {
  const dialog = document.createElement("dialog"), video = document.createElement("video");
  dialog.id = "film";
  dialog.setAttribute("aria-label", "Video");
  Object.assign(video, { controls: true, autoplay: true, src: `${address}#t=${seconds}` });
  video.addEventListener("error", () => {
    dialog.close();
    complain(new Error("Your browser cannot play this video. Download it to see it in another player."));
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    video.removeAttribute("src");
    video.load(); // ends the download
    dialog.remove();
  });
  dialog.append(video);
  document.body.append(dialog);
  dialog.showModal();
}
