package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const trial = 200 * time.Millisecond

// The best of so many trials counts: one is soon spoilt by whatever else this machine does.
const trials = 5

// enough is an error where the rate is beyond half of what this node can send: the server's answers and the
// kernel's network need their time too, and a writer that is late measures itself.
func enough(set settings, rate int64) error {
	most := 0.0
	for try := 0; try < trials && float64(rate) > most/2; try++ {
		found, err := measure(set)
		if err != nil {
			return err
		}
		most = max(most, found)
	}
	fmt.Printf("%.0f\n", most)
	if float64(rate) > most/2 {
		return fmt.Errorf("this node can send about %s a second at most, and half of that well, not %s: "+
			"ask for less, or leave rate out", grouped(two(int64(most))), grouped(rate))
	}
	return nil
}

// measure is how many transactions a second this node can schedule, send over loopback to something that answers at
// once, and record.
func measure(set settings) (float64, error) {
	scratch := set
	scratch.history += ".trial"
	scratch.rate, scratch.servers, scratch.seconds = 0, nil, trial.Seconds()
	w, err := newWriter(scratch)
	if err != nil {
		return 0, err
	}
	defer os.Remove(scratch.history)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	go answer(listener)
	w.begun, w.start = true, w.clock.now()
	w.stop = w.start + trial.Microseconds()
	close(w.ready)
	done := make(chan error, set.connections)
	for worker := range set.connections {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return 0, err
		}
		go func() {
			alarm, err := newAlarm()
			if err == nil {
				w.serve(worker, 0, &pretended{conn: conn}, alarm)
			}
			done <- err
		}()
	}
	for range set.connections {
		if err := <-done; err != nil {
			return 0, err
		}
	}
	select {
	case err := <-w.fatal:
		return 0, err
	default:
	}
	took := float64(w.clock.now()-w.start) / 1e6
	return float64(w.acknowledged) / took, nil
}

// A server that answers each message at once.
func answer(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			buffer := make([]byte, 4096)
			for {
				if _, err := conn.Read(buffer); err != nil {
					return
				}
				if _, err := conn.Write(buffer[:32]); err != nil {
					return
				}
			}
		}()
	}
}

type pretended struct {
	conn   net.Conn
	buffer [256]byte
}

func (p *pretended) exchange(size int) error {
	if _, err := p.conn.Write(p.buffer[:size]); err != nil {
		return err
	}
	_, err := io.ReadAtLeast(p.conn, p.buffer[:], 32)
	return err
}

func (p *pretended) begin(int64, int) error { return p.exchange(240) }

func (p *pretended) commit() error { return p.exchange(12) }

func (p *pretended) until(when time.Time) { _ = p.conn.SetDeadline(when) }

func (p *pretended) close() { _ = p.conn.Close() }

// two is a number with all but its first two digits 0: the rest is chance.
func two(number int64) int64 {
	unit := int64(1)
	for number/unit >= 100 {
		unit *= 10
	}
	return number / unit * unit
}

// grouped is a number as text like 41,000.
func grouped(number int64) string {
	text := fmt.Sprint(number)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
