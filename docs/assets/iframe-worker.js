// Where a page is a file, browsers start no worker for its search: the same script runs in a hidden frame instead.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    #waiting = [];

    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        for (const data of this.#waiting.splice(0)) this.#send(data);
        this.#waiting = null;
      };
      inside.document.head.append(script);
    }

    #send(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#send(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
