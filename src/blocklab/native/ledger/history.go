package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Version of the form of a history. Raise it when a reader of older ones would go wrong.
const form = 1

// The history is lines of fields with tabs between them, each written by one write(2). Times are microseconds since
// the epoch, by a clock that is never set while the writer runs. Workers and servers are counted from 0.
//
//	ledger  form  kind  rate  connections  servers  opened       the first line; rate is "max" or a number
//	s  start  stop                                               from when until when transactions are due
//	n  id  scheduled  ended  why                                 refused, for it was never begun
//	b  id  worker  server  scheduled  sent                       before the transaction is sent
//	a  id  ended                                                 its COMMIT was answered
//	r  id  ended  why                                            it failed before its COMMIT was sent
//	d  id  ended  why                                            its COMMIT was sent, and failed or was not answered
//	e  ended  stop                                               the last line, if the writer ended by itself
type history struct {
	file *os.File
}

type clock struct {
	begin time.Time
}

// now is in microseconds since the epoch.
func (c clock) now() int64 {
	return c.begin.UnixMicro() + time.Since(c.begin).Microseconds()
}

func create(set settings, opened int64) (history, error) {
	file, err := os.OpenFile(set.history, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return history{}, err
	}
	rate := "max"
	if set.rate > 0 {
		rate = strconv.FormatInt(set.rate, 10)
	}
	h := history{file}
	head := fmt.Sprintf("ledger\t%d\t%s\t%s\t%d\t%s\t%d\n",
		form, set.kind, rate, set.connections, strings.Join(set.servers, ","), opened)
	return h, h.line([]byte(head))
}

func (h history) line(text []byte) error {
	_, err := h.file.Write(text)
	return err
}

func (h history) close(now, stop int64) error {
	if err := h.line(fields('e', now, stop)); err != nil {
		return err
	}
	return h.file.Close()
}

func fields(what byte, numbers ...int64) []byte {
	text := append(make([]byte, 0, 96), what)
	for _, number := range numbers {
		text = strconv.AppendInt(append(text, '\t'), number, 10)
	}
	return append(text, '\n')
}

func because(what byte, why string, numbers ...int64) []byte {
	text := fields(what, numbers...)
	text[len(text)-1] = '\t'
	return append(append(text, plain(why)...), '\n')
}

// plain is a text that fits into one field.
func plain(text string) string {
	words := strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(words) > 200 {
		words = strings.ToValidUTF8(words[:200], "")
	}
	return words
}
