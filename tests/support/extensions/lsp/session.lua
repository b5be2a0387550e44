-- One session of Neovim at the language server, without a screen: what it shows is printed, line by line.
-- `LLM_DO_SNIPPET` is a file with the Lua of docs/how-to/editors.md.
local folder, printed = vim.fn.getcwd(), {}
local function say(text)
  for line in (text .. '\n'):gmatch('(.-)\n') do
    table.insert(printed, (line:gsub(vim.pesc(folder), '…')))
  end
end

dofile(vim.env.LLM_DO_SNIPPET)

local function ask(method, params)
  local answers, reason = vim.lsp.buf_request_sync(0, method, params, 150000)
  local _, answer = next(answers or {})
  if not answer or answer.error then
    return nil, answer and answer.error.message or reason
  end
  return answer.result
end

local function at(line, text)
  local found = vim.fn.getline(line):find(text, 1, true)
  vim.fn.cursor(line, found + 1)
  return vim.lsp.util.make_position_params(0, 'utf-16')
end

local function problems(wanted)
  vim.wait(150000, function() return #vim.diagnostic.get(0) == wanted end, 20)
  local found = vim.diagnostic.get(0)
  for _, one in ipairs(found) do
    say(('%d: %s'):format(one.lnum + 1, one.message))
  end
  if #found == 0 then say('no problems') end
end

vim.cmd('edit workers/editor.worker')
vim.wait(150000, function() return #vim.lsp.buf_get_clients(0) > 0 end, 20)
say('$ problems')
problems(1)
say('\n$ completion, below `delegation:`')
vim.fn.append(5, '    ')
vim.fn.cursor(6, 5)
local offered = ask('textDocument/completion', vim.lsp.util.make_position_params(0, 'utf-16'))
local words = {}
for _, one in ipairs(offered.items) do table.insert(words, one.label .. ' (' .. one.detail .. ')') end
say(table.concat(words, ', '))
vim.cmd('undo')
say('\n$ hover, on `toolsets`')
say(ask('textDocument/hover', at(3, 'toolsets')).contents.value)
say('\n$ definition, on `reporter`')
local target = ask('textDocument/definition', at(5, 'reporter'))
say((vim.uri_to_fname(target.uri)))
say('\n$ references, on `reporter`')
local params = at(5, 'reporter')
params.context = { includeDeclaration = true }
for _, one in ipairs(ask('textDocument/references', params)) do
  say(vim.uri_to_fname(one.uri) .. ':' .. (one.range.start.line + 1))
end
say('\n$ rename `reporter` to `editor`')
params = at(5, 'reporter')
params.newName = 'editor'
local _, refusal = ask('textDocument/rename', params)
say(refusal)
say('\n$ rename `reporter` to `fact_finder`')
params.newName = 'fact_finder'
local edit = ask('textDocument/rename', params)
vim.lsp.util.apply_workspace_edit(edit, 'utf-16')
vim.cmd('silent wall')
for _, path in ipairs(vim.fn.sort(vim.fn.glob('**/*.worker', false, true))) do say(path) end
say(vim.fn.getline(5))
say('\n$ problems, once `fact_checker` is `fact_finder`, too')
vim.fn.setline(6, '')
problems(0)
vim.fn.writefile(printed, vim.env.LLM_DO_TRANSCRIPT)
vim.cmd('qall!')
