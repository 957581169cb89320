-- Recursive hierarchies: employees under their bosses, categories under their parents, referrals.

-- chain_of_command: every employee with level and path below the director
WITH RECURSIVE below AS (
    SELECT employee_id, name, 1 AS level, name::text AS path
      FROM employees WHERE employee_id = 1
    UNION ALL
    SELECT e.employee_id, e.name, b.level + 1, b.path || ' / ' || e.name
      FROM employees AS e JOIN below AS b ON e.boss_id = b.employee_id
     WHERE b.level < 8)
SELECT employee_id, level, path FROM below;

-- team_size: how many people each boss has below, at any depth
WITH RECURSIVE under AS (
    SELECT boss_id AS top, employee_id FROM employees WHERE boss_id IS NOT NULL
    UNION
    SELECT u.top, e.employee_id
      FROM under AS u JOIN employees AS e ON e.boss_id = u.employee_id)
SELECT b.name, count(*) AS people, sum(e.salary) AS salaries, avg(e.salary) AS average
  FROM under AS u
  JOIN employees AS b ON b.employee_id = u.top
  JOIN employees AS e ON e.employee_id = u.employee_id
 GROUP BY b.employee_id, b.name;

-- category_tree: revenue of a root category with everything below it
WITH RECURSIVE tree AS (
    SELECT category_id AS root, category_id FROM categories WHERE parent_id IS NULL
    UNION ALL
    SELECT t.root, c.category_id
      FROM tree AS t JOIN categories AS c ON c.parent_id = t.category_id)
SELECT r.name, count(*) AS sales, sum(s.quantity * s.unit_price) AS revenue
  FROM tree AS t
  JOIN categories AS r ON r.category_id = t.root
  JOIN items AS i ON i.category_id = t.category_id
  JOIN store_sales AS s ON s.item_id = i.item_id
 GROUP BY r.name;

-- depth_of_items: items with the depth of their category
WITH RECURSIVE tree AS (
    SELECT category_id, 0 AS depth FROM categories WHERE parent_id IS NULL
    UNION ALL
    SELECT c.category_id, t.depth + 1
      FROM categories AS c JOIN tree AS t ON c.parent_id = t.category_id)
SELECT i.item_id, i.title, t.depth
  FROM items AS i LEFT JOIN tree AS t ON t.category_id = i.category_id;

-- referral_chains: who was referred by whom, at most five steps away
WITH RECURSIVE chain AS (
    SELECT customer_id, referred_by AS origin, 1 AS steps
      FROM customers WHERE referred_by IS NOT NULL
    UNION ALL
    SELECT c.customer_id, up.referred_by, c.steps + 1
      FROM chain AS c JOIN customers AS up ON up.customer_id = c.origin
     WHERE up.referred_by IS NOT NULL AND c.steps < 5)
SELECT origin, steps, count(*) AS customers FROM chain GROUP BY origin, steps;

-- leaves: categories without children, and how often their items came back
SELECT c.category_id, c.name, count(r.return_id) AS returns
  FROM categories AS c
  LEFT JOIN items AS i ON i.category_id = c.category_id
  LEFT JOIN returns AS r ON r.item_id = i.item_id
 WHERE NOT EXISTS (SELECT 1 FROM categories AS child WHERE child.parent_id = c.category_id)
 GROUP BY c.category_id, c.name;

-- boss_earns_less: employees who earn more than their boss, and by how much
SELECT e.employee_id, e.name, b.name AS boss, e.salary - b.salary AS more,
       e.salary / b.salary AS ratio
  FROM employees AS e JOIN employees AS b ON b.employee_id = e.boss_id
 WHERE e.salary > b.salary;

-- orphans: employees whose boss has left, and everyone below them
WITH RECURSIVE lost AS (
    SELECT e.employee_id, e.employee_id AS head
      FROM employees AS e
     WHERE e.boss_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM employees AS b WHERE b.employee_id = e.boss_id)
    UNION
    SELECT e.employee_id, l.head
      FROM employees AS e JOIN lost AS l ON e.boss_id = l.employee_id)
SELECT head, count(*) AS people FROM lost GROUP BY head;

-- sales_of_teams: what everyone below a manager sold, by quarter
WITH RECURSIVE team AS (
    SELECT employee_id AS manager, employee_id FROM employees WHERE title = 'manager'
    UNION
    SELECT t.manager, e.employee_id FROM team AS t JOIN employees AS e ON e.boss_id = t.employee_id)
SELECT t.manager, d.year, d.quarter, sum(s.quantity * s.unit_price) AS revenue
  FROM team AS t
  JOIN store_sales AS s ON s.employee_id = t.employee_id
  JOIN days AS d ON d.day = s.sold_on
 GROUP BY t.manager, d.year, d.quarter;
