module blocklab.invalid/ledger

go 1.24

require (
	github.com/go-sql-driver/mysql v1.9.3
	github.com/lib/pq v1.10.9
)

require filippo.io/edwards25519 v1.1.0 // indirect
