package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress returns a function that shows the progress of an upload: on a terminal as a bar,
// elsewhere as a line for every quarter.
func progress(out io.Writer, name string) func(sent, total int64) {
	if isTerminal(out) {
		return bar(out, name)
	}
	quarters := int64(0)
	return func(sent, total int64) {
		if total == 0 {
			return // the size is not known
		}
		for ; quarters < sent*4/total; quarters++ {
			fmt.Fprintf(out, "%s: %d %%\n", name, (quarters+1)*25)
		}
	}
}

func bar(out io.Writer, name string) func(sent, total int64) {
	const width = 40
	last := ""
	return func(sent, total int64) {
		line := fmt.Sprintf("\r%s: %d KiB", name, sent>>10)
		if total > 0 {
			done := int(sent * width / total)
			line = fmt.Sprintf("\r%s: [%s%s] %3d %%", name, strings.Repeat("#", done), strings.Repeat(" ", width-done), sent*100/total)
		}
		if sent == total {
			line += "\n"
		}
		if line != last { // a terminal is slower than a network
			fmt.Fprint(out, line)
			last = line
		}
	}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
