-- The tables that the example reads; pgtrickle init-project --sample-data makes them
CREATE SCHEMA shop_data;

CREATE TABLE shop_data.customers (
    id     integer PRIMARY KEY,
    region text NOT NULL
);

CREATE TABLE shop_data.orders (
    id          integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES shop_data.customers,
    amount      numeric(10, 2) NOT NULL
);

INSERT INTO shop_data.customers VALUES (1, 'north'), (2, 'south'), (3, 'south');

INSERT INTO shop_data.orders VALUES (1, 1, 10.00), (2, 2, 25.50), (3, 3, 40.00), (4, 1, 99.90);
