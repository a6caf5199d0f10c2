package guarantees_test

import (
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/race"
)

// The limits below are those of docs/dev/performance.md: times depend on the machine, and
// allocations do not.

// allocations returns how often f allocates, without what goroutines of earlier tests allocate at its side.
func allocations(f func()) float64 {
	return min(testing.AllocsPerRun(200, f), testing.AllocsPerRun(200, f), testing.AllocsPerRun(200, f))
}

func TestReadsAllocateLittle(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector changes how much is allocated")
	}
	small := benchmarkClient(t, "https://service.example", &http.Client{Transport: always(loanJSON)})
	assert.LessOrEqual(t, allocations(func() {
		_, err := small.Loans.Get(background, lending.LoanID(benchmarkID))
		require.NoError(t, err)
	}), 31.0, "a small GET")

	page := benchmarkClient(t, "https://service.example", &http.Client{Transport: always(pageJSON(0, 200, 200))})
	assert.LessOrEqual(t, allocations(func() {
		_, err := page.Loans.TransactionsPaged(background, lending.LoanID(benchmarkID), nil)
		require.NoError(t, err)
	}), 26.0, "a page of 200 records")

	assert.LessOrEqual(t, allocations(func() {
		_, err := lending.As[loan](small.Loans.Get(background, lending.LoanID(benchmarkID)))
		require.NoError(t, err)
	}), 42.0, "a small GET, decoded")
	assert.LessOrEqual(t, allocations(func() {
		got, err := page.Loans.TransactionsPaged(background, lending.LoanID(benchmarkID), nil)
		require.NoError(t, err)
		_, err = lending.ListAs[transaction](got.Data, nil)
		require.NoError(t, err)
	}), 250.0, "a page of 200 records, each decoded")
}

func TestMutationsAllocateLittle(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector changes how much is allocated")
	}
	client := benchmarkClient(t, "https://service.example",
		&http.Client{Transport: always(`{"id":"` + benchmarkID.String() + `"}`)})
	assert.LessOrEqual(t, allocations(func() {
		require.NoError(t, client.Applications.Cancel(background, catalog.Application))
	}), 22.0, "without a body")
	assert.LessOrEqual(t, allocations(func() {
		_, err := client.Applications.CreateCustomer(background, adaRequest)
		require.NoError(t, err)
	}), 39.0, "with one, checked and encoded")
}

// TestIteratorHoldsOnePage walks 10,000 records of 4 MB and measures the live memory.
func TestIteratorHoldsOnePage(t *testing.T) {
	client := benchmarkClient(t, "https://service.example", &http.Client{Transport: portfolio(10_000)})
	alive := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const kib = 1 << 10 // a page is 85 KiB
	n, before, peak := 0, alive(), int64(0)
	for _, err := range client.Loans.AllTransactionsPaged(background, lending.LoanID(benchmarkID), nil) {
		require.NoError(t, err)
		if n++; n%1000 == 500 {
			peak = max(peak, alive()-before)
		}
	}
	require.Equal(t, 10_000, n)
	assert.Less(t, peak, int64(128*kib))
}
