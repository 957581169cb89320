-- A retailer that sells in stores, by catalogue and on the web. Nothing enforces the references:
-- rows lose their partners, and outer joins have something to show.

CREATE TABLE days (
    day date PRIMARY KEY, year int, quarter int, month int, week int, weekday int, holiday text);

CREATE TABLE addresses (
    address_id int PRIMARY KEY, street text, city text, state text, country text, postcode text);

CREATE TABLE customers (
    customer_id int PRIMARY KEY, first_name text, last_name text, email text, born date,
    segment text, address_id int, signed_up date, referred_by int, credit numeric(9, 2),
    preferences jsonb);

CREATE TABLE categories (category_id int PRIMARY KEY, name text, parent_id int);

CREATE TABLE brands (brand_id int PRIMARY KEY, name text, maker text);

CREATE TABLE items (
    item_id int PRIMARY KEY, sku text, title text, brand_id int, category_id int,
    list_price numeric(7, 2), cost numeric(7, 2), weight numeric, colour text, introduced date,
    attributes jsonb, tags text[]);

CREATE TABLE stores (
    store_id int PRIMARY KEY, name text, address_id int, opened date, closed date, floor_area int,
    manager_id int);

CREATE TABLE employees (
    employee_id int PRIMARY KEY, name text, title text, boss_id int, store_id int,
    salary numeric(9, 2), hired date);

CREATE TABLE promotions (
    promotion_id int PRIMARY KEY, name text, channel text, rate numeric(4, 3), starts date,
    ends date);

CREATE TABLE store_sales (
    sale_id int PRIMARY KEY, ticket int, sold_on date, store_id int, employee_id int,
    customer_id int, item_id int, promotion_id int, quantity int, unit_price numeric(7, 2),
    discount numeric(7, 2));

CREATE TABLE catalog_sales (
    sale_id int PRIMARY KEY, order_no int, sold_on date, shipped_on date, call_center text,
    customer_id int, item_id int, promotion_id int, quantity int, unit_price numeric(7, 2),
    discount numeric(7, 2), shipping numeric(7, 2));

CREATE TABLE web_sales (
    sale_id int PRIMARY KEY, order_no int, sold_at timestamp, shipped_on date, site text,
    customer_id int, item_id int, promotion_id int, address_id int, quantity int,
    unit_price numeric(7, 2), discount numeric(7, 2), shipping numeric(7, 2));

CREATE TABLE returns (
    return_id int PRIMARY KEY, channel text, sale_id int, item_id int, customer_id int,
    returned_on date, quantity int, amount numeric(8, 2), reason text);

CREATE TABLE stock (
    item_id int, store_id int, counted_on date, on_hand int,
    PRIMARY KEY (item_id, store_id, counted_on));

CREATE TABLE events (
    event_id int PRIMARY KEY, visitor text, customer_id int, at timestamp, kind text,
    payload jsonb);

CREATE INDEX ON customers (address_id);
CREATE INDEX ON customers (referred_by);
CREATE INDEX ON categories (parent_id);
CREATE INDEX ON items (brand_id);
CREATE INDEX ON items (category_id);
CREATE INDEX ON employees (boss_id);
CREATE INDEX ON employees (store_id);
CREATE INDEX ON store_sales (customer_id);
CREATE INDEX ON store_sales (item_id);
CREATE INDEX ON store_sales (store_id);
CREATE INDEX ON store_sales (sold_on);
CREATE INDEX ON catalog_sales (customer_id);
CREATE INDEX ON catalog_sales (item_id);
CREATE INDEX ON catalog_sales (sold_on);
CREATE INDEX ON web_sales (customer_id);
CREATE INDEX ON web_sales (item_id);
CREATE INDEX ON web_sales (address_id);
CREATE INDEX ON returns (sale_id);
CREATE INDEX ON returns (item_id);
CREATE INDEX ON returns (customer_id);
CREATE INDEX ON stock (store_id);
CREATE INDEX ON events (visitor);
CREATE INDEX ON events (customer_id);
