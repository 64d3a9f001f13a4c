// The same three hooks for opencode: suggest.py beside this file decides, this file only carries its answer.
// opencode has no "ask" for a hook, so a command that deletes a box is stopped once, with the release check; the same command again goes through.
// A line for a prompt goes to the model as a part of the user's message that opencode doesn't show. Each line comes once in a session.
import { spawnSync } from "node:child_process"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const script = join(dirname(fileURLToPath(import.meta.url)), "suggest.py")
const names = { bash: "Bash", read: "Read" }

function ask(event) {
  const done = spawnSync(process.platform === "win32" ? "python" : "python3", [script], { input: JSON.stringify(event), encoding: "utf8", timeout: 5000 })
  try {
    return JSON.parse(done.stdout).hookSpecificOutput
  } catch {
    return undefined
  }
}

function given(args) {
  return { command: args?.command, file_path: args?.filePath }
}

export const RemoteGpuTrainerHooks = async () => {
  const shown = new Set()

  function first(sessionID, line) {
    const key = JSON.stringify([sessionID, line])
    return !shown.has(key) && shown.add(key)
  }

  return {
    "chat.message": async (input, output) => {
      const typed = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      if (!typed.length) return
      const said = ask({ hook_event_name: "UserPromptSubmit", prompt: typed.map((part) => part.text).join("\n") })
      if (!said || !first(input.sessionID, said.additionalContext)) return
      const { id, sessionID, messageID } = typed.at(-1)
      output.parts.push({ id: id + "0", sessionID, messageID, type: "text", text: said.additionalContext, synthetic: true })
    },
    "tool.execute.before": async (input, output) => {
      if (input.tool !== "bash" || shown.has(output.args?.command)) return
      const said = ask({ hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: given(output.args) })
      if (!said) return
      shown.add(output.args.command)
      throw new Error(said.permissionDecisionReason + " Ask the user; the same command again goes through.")
    },
    "tool.execute.after": async (input, output) => {
      if (!names[input.tool]) return
      const said = ask({ hook_event_name: "PostToolUse", tool_name: names[input.tool], tool_input: given(input.args), tool_response: output.output })
      if (said && first(input.sessionID, said.additionalContext)) output.output += "\n\n" + said.additionalContext
    },
  }
}
