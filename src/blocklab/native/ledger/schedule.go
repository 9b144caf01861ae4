package main

import (
	"fmt"
	"sync"
	"time"
)

const never = int64(-1)

// For the deadlines of the last transactions to pass by themselves.
const spare = 100 * time.Millisecond

// A writer knows which transaction is due next, and counts. A transaction is its number from 0; its id is the time
// of the start in microseconds plus that number, so that a later run never has an id of an earlier one, even where
// the database has lost it: no writer begins a million a second.
type writer struct {
	set     settings
	clock   clock
	history history
	first   int64
	fatal   chan error

	ready chan struct{}

	mutex     sync.Mutex
	begun     bool // whether the schedule has begun
	start     int64
	stop      int64
	over      bool
	next      int64   // the first transaction that no worker has
	held      []int64 // by worker, one that is to be begun when it is due
	busy      int
	connected int
	server    int // that acknowledged last
	late      int64

	scheduled, acknowledged, refused, doubted int64
}

func newWriter(set settings) (*writer, error) {
	w := &writer{set: set, clock: clock{time.Now()}, server: -1, fatal: make(chan error, set.connections+1)}
	w.first = w.clock.now()
	w.ready = make(chan struct{})
	w.held = make([]int64, set.connections)
	for worker := range w.held {
		w.held[worker] = never
	}
	var err error
	w.history, err = create(set, w.first)
	return w, err
}

// open begins the schedule once all workers are connected, or could not be in time.
func (w *writer) open() {
	limit := time.Now().Add(w.set.patience)
	for time.Now().Before(limit) {
		w.mutex.Lock()
		all := w.connected == w.set.connections
		w.mutex.Unlock()
		if all || len(w.fatal) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.mutex.Lock()
	w.start = w.clock.now()
	w.stop = w.start + int64(w.set.seconds*1e6)
	w.begun = true
	w.note(fields('s', w.start, w.stop))
	w.mutex.Unlock()
	close(w.ready)
}

func (w *writer) due(number int64) int64 {
	return w.start + number*1_000_000/w.set.rate
}

// end has nothing fall due any more.
func (w *writer) end() {
	w.mutex.Lock()
	w.stop = min(w.stop, w.clock.now())
	w.mutex.Unlock()
}

// unused is above each id that this run has used.
func (w *writer) unused() int64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.first + w.next
}

// take gives a connected worker the next transaction, due now or later; false where there will be none.
func (w *writer) take(worker int) (int64, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	now := w.clock.now()
	w.expire(now)
	if w.over || now >= w.stop && w.set.rate == 0 || w.set.rate > 0 && w.due(w.next) >= w.stop {
		return 0, false
	}
	w.held[worker] = w.next
	w.next++
	return w.held[worker], true
}

// begin puts on record that a transaction is sent now; false where it is not to be sent any more.
func (w *writer) begin(worker, server int, number, free int64) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	sent := w.clock.now()
	scheduled := sent
	if w.set.rate > 0 {
		scheduled = w.due(number)
	}
	if w.over {
		return false
	}
	w.held[worker] = never
	if scheduled >= w.stop {
		return false
	}
	w.note(fields('b', w.first+number, int64(worker), int64(server), scheduled, sent))
	w.busy++
	w.scheduled++
	w.late = max(w.late, sent-max(scheduled, free))
	return true
}

// expire refuses what nobody has taken within the patience; the caller has the lock.
func (w *writer) expire(now int64) {
	why := "no free connection"
	if w.connected == 0 {
		why = "no connection"
	}
	limit := now - w.set.patience.Microseconds()
	for w.begun && !w.over && w.set.rate > 0 && w.due(w.next) <= limit && w.due(w.next) < w.stop {
		w.refuse(w.next, now, why)
		w.next++
	}
}

func (w *writer) refuse(number, now int64, why string) {
	w.scheduled++
	w.refused++
	w.note(because('n', why, w.first+number, w.due(number), now))
}

// note writes a line of the history. One with a gap is worse than none.
func (w *writer) note(line []byte) {
	if err := w.history.line(line); err != nil {
		select {
		case w.fatal <- fmt.Errorf("the history cannot be written: %w", err):
		default:
		}
	}
}

// tick gives up what waited too long; true once nothing is due any more and nothing under way, or no longer waited
// for.
func (w *writer) tick() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	now := w.clock.now()
	w.expire(now)
	if now < w.stop {
		return false
	}
	idle := w.busy == 0 && (w.set.rate == 0 || w.due(w.next) >= w.stop)
	for _, number := range w.held {
		idle = idle && (number == never || w.set.rate == 0 || w.due(number) >= w.stop)
	}
	// What was due is begun within the patience, and answered within it once more.
	if !idle && now < w.stop+2*w.set.patience.Microseconds()+spare.Microseconds() {
		return false
	}
	w.over = true
	// Workers write no more lines; a reader takes what was begun and has no end for in doubt.
	w.doubted += int64(w.busy)
	if w.set.rate == 0 {
		return true
	}
	for _, number := range w.held {
		if number != never && w.due(number) < w.stop {
			w.refuse(number, now, "no free connection until the end")
		}
	}
	for ; w.due(w.next) < w.stop; w.next++ {
		w.refuse(w.next, now, "no free connection until the end")
	}
	return true
}

// line is what has happened so far; late is the latest start since the last line of what was due while a connection
// was free.
func (w *writer) line() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	late := w.late
	w.late = 0
	return fmt.Sprintf(`{"time": %.6f, "scheduled": %d, "acknowledged": %d, "refused": %d, "in_doubt": %d, `+
		`"server": %d, "connected": %d, "late": %.6f}`,
		float64(w.clock.now())/1e6, w.scheduled, w.acknowledged, w.refused, w.doubted,
		w.server, w.connected, float64(late)/1e6)
}
