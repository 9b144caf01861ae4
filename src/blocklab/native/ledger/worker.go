package main

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	acknowledged = 'a'
	refused      = 'r'
	inDoubt      = 'd'
)

// work is one connection's life: connect to whichever server accepts, then transaction after transaction; any
// failure ends the connection.
func (w *writer) work(worker int) {
	alarm, err := newAlarm()
	if err != nil {
		w.fatal <- err
		return
	}
	server := 0
	for {
		var found link
		if found, server = w.connect(server); found == nil {
			return
		}
		w.count(1)
		more := w.serve(worker, server, found, alarm)
		w.count(-1)
		found.close()
		if !more {
			return
		}
		// Workers begin at different servers, so that each server is tried all the time, though one that is dead
		// makes those that try it wait.
		server = (server + worker) % len(w.set.servers)
	}
}

func (w *writer) count(change int) {
	w.mutex.Lock()
	w.connected += change
	w.mutex.Unlock()
}

// connect tries all servers in turn until one accepts; nil at the end.
func (w *writer) connect(server int) (link, int) {
	for try := 1; ; try++ {
		w.mutex.Lock()
		over := w.over || w.begun && w.clock.now() >= w.stop+w.set.patience.Microseconds()
		w.mutex.Unlock()
		if over {
			return nil, 0
		}
		found, err := connect(w.set, server, w.unused)
		if err == nil {
			return found, server
		}
		if final := (hopeless{}); errors.As(err, &final) {
			w.fatal <- err
			return nil, 0
		}
		server = (server + 1) % len(w.set.servers)
		if try%len(w.set.servers) == 0 {
			time.Sleep(50*time.Millisecond + rand.N(50*time.Millisecond))
		}
	}
}

// serve does transactions on one connection; false when there are no more to do.
func (w *writer) serve(worker, server int, to link, alarm *alarm) bool {
	<-w.ready
	for {
		free := w.clock.now()
		number, ok := w.take(worker)
		if !ok {
			return false
		}
		if w.set.rate > 0 {
			if err := alarm.wait(w.due(number) - w.clock.now()); err != nil {
				w.fatal <- err
				return false
			}
		}
		if !w.begin(worker, server, number, free) {
			return false
		}
		if !w.attempt(worker, server, w.first+number, to) {
			return true
		}
	}
}

// attempt is one transaction that is on record as sent; false when it failed.
func (w *writer) attempt(worker, server int, id int64, to link) bool {
	to.until(time.Now().Add(w.set.patience))
	answer := refused
	err := to.begin(id, worker)
	if err == nil {
		answer = inDoubt
		if err = to.commit(); err == nil {
			answer = acknowledged
		}
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.busy--
	if w.over {
		return false
	}
	now := w.clock.now()
	switch answer {
	case acknowledged:
		w.acknowledged++
		w.server = server
		w.note(fields(acknowledged, id, now))
	case refused:
		w.refused++
		w.note(because(refused, err.Error(), id, now))
	default:
		w.doubted++
		w.note(because(inDoubt, err.Error(), id, now))
	}
	return err == nil
}
