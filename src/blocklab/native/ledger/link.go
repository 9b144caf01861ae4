package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
)

const (
	dialTime = 250 * time.Millisecond
	// A server that has just recovered reads its catalogue from the disk for the first ones.
	sessionTime = 2 * time.Second
)

// 64 bytes, so that a row is about as long as one of a small real table.
var pad = strings.Repeat("blocklab", 8)

// A link is one connection. The drivers are used without database/sql, which sends a statement again on another
// connection when the first one looks dead; here nothing is ever sent twice.
type link interface {
	// begin sends all but the COMMIT, and waits for the answer.
	begin(id int64, worker int) error
	// commit is nil only where the server said that it committed.
	commit() error
	// until sets the time after which everything fails.
	until(when time.Time)
	close()
}

// A mistake that no further try mends.
type hopeless struct{ error }

// What a server is asked first: whether it only reads, the highest id, how many workers the tally has.
const state = "(SELECT coalesce(max(id), 0) FROM ledger), (SELECT count(*) FROM tally)"

// connect gives a connection to a server that accepts writes; own tells an id above all that this run has used.
func connect(set settings, server int, own func() int64) (link, error) {
	var found *sqlLink
	var err error
	if set.kind == "postgresql" {
		found, err = connectPostgres(set, set.servers[server])
	} else {
		found, err = connectMysql(set, set.servers[server])
	}
	if err != nil {
		return nil, missing(err)
	}
	if err := found.check(set, own); err != nil {
		found.close()
		return nil, missing(err)
	}
	return found, nil
}

// missing makes an error hopeless where it is about tables that nobody made.
func missing(err error) error {
	var postgres *pq.Error
	var maria *mysql.MySQLError
	absent := errors.As(err, &postgres) && postgres.Code == "42P01" || errors.As(err, &maria) && maria.Number == 1146
	if absent {
		return hopeless{fmt.Errorf("the database has no ledger: %w", err)}
	}
	return err
}

// A dialer remembers the connection, whose deadline is ours to set.
type dialer struct{ conn net.Conn }

func (d *dialer) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, dialTime)
	if err == nil {
		d.conn = conn
		err = conn.SetDeadline(time.Now().Add(sessionTime))
	}
	return conn, err
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d *dialer) DialTimeout(network, address string, _ time.Duration) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func connectPostgres(set settings, address string) (*sqlLink, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, hopeless{err}
	}
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	connector, err := pq.NewConnector(fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=disable",
		quote(host), quote(port), quote(set.user), quote(set.password), quote(set.database)))
	if err != nil {
		return nil, hopeless{err}
	}
	dial := &dialer{}
	connector.Dialer(dial)
	conn, err := connector.Connect(context.Background())
	if err != nil {
		dial.drop()
		return nil, err
	}
	ask := "SELECT (current_setting('transaction_read_only') = 'on')::int, " + state
	// Its Commit asks for the tag of the answer, which is ROLLBACK for a transaction that had failed.
	commits, ok := conn.(driver.Tx)
	if !ok {
		return nil, hopeless{errors.New("this lib/pq cannot commit without database/sql")}
	}
	return &sqlLink{dial, conn, ask, commits.Commit}, nil
}

func connectMysql(set settings, address string) (*sqlLink, error) {
	dial := &dialer{}
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = set.user, set.password, set.database
	config.Net, config.Addr = "tcp", address
	config.DialFunc = dial.DialContext
	config.MultiStatements = true
	config.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, hopeless{err}
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		dial.drop()
		return nil, err
	}
	found := &sqlLink{dialer: dial, conn: conn, ask: "SELECT @@global.read_only, " + state}
	found.end = func() error {
		_, err := found.exec("COMMIT")
		return err
	}
	return found, nil
}

func (d *dialer) drop() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

type sqlLink struct {
	*dialer
	conn driver.Conn
	ask  string
	end  func() error
}

func (l *sqlLink) exec(text string) (driver.Result, error) {
	return l.conn.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
}

func (l *sqlLink) check(set settings, own func() int64) error {
	rows, err := l.conn.(driver.QueryerContext).QueryContext(context.Background(), l.ask, nil)
	if err != nil {
		return err
	}
	found := make([]driver.Value, 3)
	if err := rows.Next(found); err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	numbers := [3]int64{}
	for index, value := range found {
		text := fmt.Sprint(value)
		if raw, ok := value.([]byte); ok {
			text = string(raw)
		}
		if numbers[index], err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	if numbers[0] != 0 {
		return errors.New("it only reads")
	}
	// Asked for last: other workers go on meanwhile.
	if numbers[1] >= own() {
		return hopeless{fmt.Errorf("the ledger has the id %d already, which is in this node's future: "+
			"ids are times, and its clock is behind that of the run before", numbers[1])}
	}
	if numbers[2] < int64(set.connections) {
		return hopeless{fmt.Errorf("the tally has %d workers, not %d", numbers[2], set.connections)}
	}
	return nil
}

func (l *sqlLink) begin(id int64, worker int) error {
	result, err := l.exec(fmt.Sprintf("BEGIN; INSERT INTO ledger(id, worker, pad) VALUES (%d, %d, '%s'); "+
		"UPDATE tally SET n = n + 1, last = %d WHERE worker = %d", id, worker, pad, id, worker))
	if err != nil {
		return err
	}
	// Of the last statement.
	if changed, err := result.RowsAffected(); err != nil || changed != 1 {
		return fmt.Errorf("the tally of worker %d was not there to be updated", worker)
	}
	return nil
}

func (l *sqlLink) commit() error { return l.end() }

func (l *sqlLink) until(when time.Time) { _ = l.dialer.conn.SetDeadline(when) }

// Not the driver's own, which would say goodbye and wait.
func (l *sqlLink) close() {
	l.drop()
	_ = l.conn.Close()
}
