import { startFrame, showState } from "./frame.js";
import { Live } from "./live.js";

startFrame();
new Live("/", { onFrame: () => {}, onState: (state) => showState(state, state) });
