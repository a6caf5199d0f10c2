package onboarding

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Show returns a function for [Trial.Tell] that prints the progress: on a terminal as a line
// that changes, elsewhere as a new line every two seconds.
func Show(out io.Writer, customers int) func(Progress) {
	begin, end, every := "", "\n", 2*time.Second
	if isTerminal(out) {
		begin, end, every = "\r", "", 100*time.Millisecond
	}
	var shown time.Duration
	return func(p Progress) {
		if !p.Done && p.Elapsed-shown < every {
			return
		}
		shown = p.Elapsed
		_, _ = fmt.Fprintf(out, "%s%5.1f s: %2d of %d withdrawals confirmed, %2d workers killed, %2d responses lost%s",
			begin, p.Elapsed.Seconds(), p.Confirmed, customers, p.Kills, p.Lost, end)
		if p.Done && end == "" {
			_, _ = fmt.Fprintln(out)
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
