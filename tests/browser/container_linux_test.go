package browser_test

import (
	"debug/elf"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sandbox of these tests is the container's program, built from the files that the Dockerfile
// copies: static, so that it runs in an empty image as anybody. The entry point serves until docker
// stop, which sends SIGTERM.
func TestContainer(t *testing.T) {
	built, err := elf.Open(program)
	require.NoError(t, err)
	defer built.Close()
	for _, part := range built.Progs {
		assert.NotEqual(t, elf.PT_INTERP, part.Type, "it is static")
	}
	text, err := dockerfile()
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^FROM scratch$`, text)
	assert.Regexp(t, `(?m)^USER [1-9]\d*:[1-9]\d*$`, text)
	line, err := lineOf(text, `ENTRYPOINT (.*)`)
	require.NoError(t, err)
	var entry []string
	require.NoError(t, json.Unmarshal([]byte(line), &entry))
	cmd := exec.CommandContext(t.Context(), program, append(entry[1:], "-addr", "127.0.0.1:0")...)
	cmd.Env = []string{}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, len("The sandbox is at "))
	_, err = io.ReadFull(out, first)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	printed, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.True(t, strings.HasSuffix(string(printed), "The sandbox has stopped.\n"), string(printed))
}
