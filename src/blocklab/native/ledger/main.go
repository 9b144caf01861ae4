// blocklab-ledger writes transactions to a database that may die, and keeps on this node what became of each.
//
// What it writes: history.go. How it speaks to servers: link.go. When a transaction is due: schedule.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Set by the build: the first digits of the hash of these sources.
var version = "dev"

// How often what is due for too long is given up, and how often the counters are printed.
const (
	beat     = 10 * time.Millisecond
	counters = 100 * time.Millisecond
)

type settings struct {
	kind        string
	servers     list
	user        string
	password    string
	database    string
	connections int
	rate        int64 // a second; 0: one after the other
	seconds     float64
	patience    time.Duration
	history     string
}

type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func main() {
	// The drivers would take servers and passwords from it.
	os.Clearenv()
	// It allocates little, and a collection delays what is due.
	debug.SetGCPercent(800)
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "blocklab-ledger:", err)
		os.Exit(1)
	}
}

func start(arguments []string) error {
	set := settings{}
	flags := flag.NewFlagSet("blocklab-ledger", flag.ExitOnError)
	flags.StringVar(&set.kind, "kind", "", "postgresql or mysql (MariaDB too)")
	flags.Var(&set.servers, "server", "ADDRESS:PORT; again for each further server")
	flags.StringVar(&set.user, "user", "", "who connects")
	passwordFile := flags.String("password-file", "", "the file with the password; none without it")
	flags.StringVar(&set.database, "database", "", "which database")
	flags.IntVar(&set.connections, "connections", 8, "how many, each with one transaction at a time")
	rate := flags.String("rate", "max", "transactions a second that are due, whatever became of earlier ones; or max")
	flags.Float64Var(&set.seconds, "seconds", 10, "how long transactions are due")
	flags.DurationVar(&set.patience, "patience", time.Second, "how long one may wait to be begun, and then to be answered")
	flags.StringVar(&set.history, "history", "", "the file for what became of each")
	can := flags.Int64("can", 0, "only tell whether this node could send so many a second")
	ask := flags.Bool("version", false, "print the version")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *ask {
		fmt.Println("blocklab-ledger", version)
		return nil
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not an option", flags.Arg(0))
	}
	if set.history == "" || set.connections < 1 || set.patience <= 0 {
		return errors.New("--history is needed, and --connections and --patience above 0")
	}
	if *can > 0 {
		return enough(set, *can)
	}
	if *rate != "max" {
		number, err := strconv.ParseInt(*rate, 10, 64)
		if err != nil || number < 1 {
			return fmt.Errorf("--rate %s: give max, or a whole number from 1", *rate)
		}
		set.rate = number
	}
	if len(set.servers) == 0 || set.user == "" || set.database == "" || set.seconds <= 0 {
		return errors.New("--server, --user, --database and --seconds above 0 are needed")
	}
	if *passwordFile != "" {
		// Not an argument, which every user of this host could read.
		text, err := os.ReadFile(*passwordFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		set.password = strings.TrimSpace(string(text))
	}
	if set.kind != "postgresql" && set.kind != "mysql" {
		return fmt.Errorf("--kind %q: give postgresql or mysql", set.kind)
	}
	return write(set)
}

// write is the whole run: transactions until the time is over or a signal comes, then what is under way.
func write(set settings) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	w, err := newWriter(set)
	if err != nil {
		return err
	}
	for worker := range set.connections {
		go w.work(worker)
	}
	w.open()
	beats, next := time.NewTicker(beat), time.Now()
	defer beats.Stop()
	for {
		select {
		case <-signals:
			w.end()
		case err := <-w.fatal:
			return err
		case <-beats.C:
		}
		over := w.tick()
		if now := time.Now(); over || !now.Before(next) {
			next = now.Add(counters)
			fmt.Println(w.line())
		}
		if over {
			return w.history.close(w.clock.now(), w.stop)
		}
	}
}
