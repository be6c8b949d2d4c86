// A button on each block of code that copies it, without the prompts of consoles.
addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const text = block.querySelector("pre").textContent.replace(/^\$ /gm, "");
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // A page opened as a file may be refused the clipboard: the text is selected, to be copied by keys.
        getSelection().selectAllChildren(block.querySelector("pre"));
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    block.append(button);
  }
});
